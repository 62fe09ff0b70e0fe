// Scenario `everything`: what a client can do, against @modelcontextprotocol/server-everything 2026.8.31, either directly
// (its own streamableHttp mode) or behind a gateway (its stdio mode). A modern client has no session, no log level and no
// `ping`, and listens to what it would subscribe to.

import { expect } from './report.mjs';
import { textOf } from './wire.mjs';

const LONG = 'trigger-long-running-operation';
const TEXT = 'demo://resource/dynamic/text/1';

export async function everything(report, session, options) {
  const { client, call, wire } = session;
  const modern = session.era === 'modern';
  let sessionId;

  await report.step('list-tools', async () => {
    const { tools } = await client.listTools();
    const names = tools.map(tool => tool.name);
    // The last three are there only if the server saw our capabilities.
    const wanted = ['echo', 'get-sum', LONG, 'trigger-elicitation-request', 'trigger-sampling-request', 'get-roots-list'];
    const missing = wanted.filter(name => !names.includes(name));
    expect(missing.length === 0, `missing tools: ${missing.join(', ')}`, { names });
    return { tools: names.length };
  });

  await report.step('echo', async () => {
    const text = textOf(await call('echo', { message: 'héllo\nworld ✓' }));
    expect(text === 'Echo: héllo\nworld ✓', 'not what was sent', { text });
  });

  await report.step('sum', async () => {
    const text = textOf(await call('get-sum', { a: 2, b: 40 }));
    expect(text.includes('42'), 'wrong sum', { text });
  });

  await report.step('structured-content', async () => {
    const result = await call('get-structured-content', { location: 'Chicago' });
    expect(typeof result.structuredContent?.temperature === 'number', 'no structured content', { result });
  });

  await report.step('progress', async () => {
    const before = wire.notifications['notifications/progress'] ?? 0;
    const seen = [];
    // Version 2 tells its caller of every round that it answers as if that were progress.
    const own = /^Fulfilling input required/;
    const onprogress = ({ progress, message = '' }) => own.test(message) || seen.push(progress);
    const text = textOf(await call(LONG, { duration: 1, steps: 5 }, { onprogress, timeout: 30_000 }));
    const received = wire.notifications['notifications/progress'] - before;
    expect(text.includes('completed'), 'not the result of the operation', { text });
    expect(received === 5, `received ${received} progress notifications instead of 5`, { seen });
    expect(seen.join() === '1,2,3,4,5', 'progress lost or out of order', { seen });
    return { received };
  });

  await report.step('unknown-tool', async () => {
    try {
      const result = await call('no-such-tool', {});
      expect(result.isError, 'a tool that does not exist answered', { result });
      return { answer: 'isError' };
    } catch (error) {
      expect(error.code === -32602, 'neither isError nor -32602', { code: error.code, text: error.message });
      return { answer: 'error', code: error.code };
    }
  });

  await report.step('resources', async () => {
    const { resources } = await client.listResources();
    expect(resources.length > 0, 'no resources');
    const { contents } = await client.readResource({ uri: resources[0].uri });
    expect(contents[0].text?.length > 0, 'an empty resource', { uri: resources[0].uri });
    return { resources: resources.length, characters: contents[0].text.length };
  });

  await report.step('templates', async () => {
    const { resourceTemplates } = await client.listResourceTemplates();
    expect(resourceTemplates.length === 2, 'not two templates', { resourceTemplates });
    const text = (await client.readResource({ uri: TEXT })).contents[0].text;
    expect(text.startsWith('Resource 1:'), 'not resource 1', { text });
    const blob = (await client.readResource({ uri: 'demo://resource/dynamic/blob/7' })).contents[0].blob;
    expect(Buffer.from(blob, 'base64').toString().startsWith('Resource 7:'), 'not resource 7', { blob });
  });

  await report.step('subscribe', async () => {
    const listening = await (modern ? client.listen({ resourceSubscriptions: [TEXT] }) : client.subscribeResource({ uri: TEXT }));
    // The server sends one update at once and one every 5 s; the first may find no standalone stream yet.
    const update = wire.next('notifications/resources/updated', 20, params => params.uri === TEXT);
    update.catch(() => {});
    const text = textOf(await call('toggle-subscriber-updates', {}));
    expect(text.startsWith('Started'), 'updates were not started', { text });
    await update;
    textOf(await call('toggle-subscriber-updates', {}));
    await (modern ? listening.close() : client.unsubscribeResource({ uri: TEXT }));
  });

  await report.step('prompts', async () => {
    const { prompts } = await client.listPrompts();
    expect(prompts.some(prompt => prompt.name === 'args-prompt'), 'no args-prompt', { prompts });
    const { messages } = await client.getPrompt({ name: 'args-prompt', arguments: { city: 'Ulm' } });
    expect(messages[0].content.text.includes('Ulm'), 'the argument is not in the prompt', { messages });
    return { prompts: prompts.length };
  });

  await report.step('completion', async () => {
    const ref = { type: 'ref/prompt', name: 'completable-prompt' };
    const first = await client.complete({ ref, argument: { name: 'department', value: 'E' } });
    expect(first.completion.values.join() === 'Engineering', 'wrong completion', { first });
    const context = { arguments: { department: 'Sales' } };
    const second = await client.complete({ ref, argument: { name: 'name', value: '' }, context });
    expect(second.completion.values.join() === 'David,Eve,Frank', 'the context was not used', { second });
    const template = { type: 'ref/resource', uri: 'demo://resource/dynamic/text/{resourceId}' };
    const third = await client.complete({ ref: template, argument: { name: 'resourceId', value: '12' } });
    expect(third.completion.values.join() === '12', 'wrong completion of a template', { third });
  });

  await report.step('elicitation', async () => {
    const result = await call('trigger-elicitation-request', {});
    const text = result.content.map(content => content.text).join('\n');
    expect(text.includes('Name: Ann Example'), 'the answer did not reach the server', { text });
    expect(session.asked.elicitation === 1, `asked ${session.asked.elicitation} times instead of once`);
  });

  await report.step('sampling', async () => {
    const text = textOf(await call('trigger-sampling-request', { prompt: 'a question', maxTokens: 10 }));
    expect(text.includes('sampled: Resource trigger-sampling-request context: a question'), 'not our answer', { text });
    expect(session.asked.sampling === 1, `asked ${session.asked.sampling} times instead of once`);
  });

  await report.step('roots', async () => {
    const text = textOf(await call('get-roots-list', {}));
    expect(text.includes('file:///srv/example'), 'our root did not reach the server', { text });
    return { asked: session.asked.roots };
  });

  if (modern) return;

  await report.step('logging', async () => {
    await client.setLoggingLevel('debug');
    const message = wire.next('notifications/message', 20, params => String(params.data).includes('evel'));
    message.catch(() => {});
    const text = textOf(await call('toggle-simulated-logging', {}));
    expect(text.startsWith('Started'), 'logging was not started', { text });
    const { level } = await message;
    textOf(await call('toggle-simulated-logging', {}));
    return { level };
  });

  await report.step('ping', async () => {
    await client.ping();
  });

  await report.step('terminate', async () => {
    sessionId = session.sessionId();
    expect(sessionId, 'there is no session to end');
    await session.terminate();
    const deleted = Object.keys(wire.statuses).filter(key => key.startsWith('DELETE'));
    expect(['DELETE 200', 'DELETE 204'].includes(deleted.join()), 'DELETE was not answered with 200 or 204', { deleted });
    return { deleted: deleted.join() };
  });

  await report.step('gone', async () => {
    const response = await fetch(options.url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-session-id': sessionId,
        'mcp-protocol-version': options.revision,
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
    });
    const body = (await response.text()).slice(0, 300);
    expect(response.status === options.goneStatus, `status ${response.status}, not ${options.goneStatus}`, { body });
    return { status: response.status };
  });
}
