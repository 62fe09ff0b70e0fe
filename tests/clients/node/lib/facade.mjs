// Scenario `facade`: what a modern client can do against the server of the conformance suite (bowline-conformance-server).

import { expect } from './report.mjs';
import { textOf } from './wire.mjs';

export async function facade(report, { client, call, wire, asked }) {
  await report.step('list-tools', async () => {
    const { tools } = await client.listTools();
    expect(tools.some(tool => tool.name === 'test_simple_text'), 'no test_simple_text', { tools });
    return { tools: tools.length };
  });
  await report.step('text', async () => {
    const text = textOf(await call('test_simple_text', {}));
    expect(text.length > 0, 'no text');
  });
  await report.step('elicitation', async () => {
    const text = textOf(await call('test_input_required_result_elicitation', {}));
    expect(text === 'Hello, Ann Example!', 'the answer did not reach the server', { text });
    expect(asked.elicitation === 1, `asked ${asked.elicitation} times instead of once`);
  });
  await report.step('sampling', async () => {
    const text = textOf(await call('test_input_required_result_sampling', {}));
    expect(text.includes('sampled: '), 'not our answer', { text });
    expect(asked.sampling === 1, `asked ${asked.sampling} times instead of once`);
  });
  await report.step('listen', async () => {
    const listening = await client.listen({ toolsListChanged: true });
    const told = wire.next('notifications/tools/list_changed', 20);
    told.catch(() => {});
    textOf(await call('test_trigger_tool_change', {}));
    await told;
    await listening.close();
  });
}
