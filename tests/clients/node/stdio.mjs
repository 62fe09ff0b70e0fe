// The TypeScript SDK's stdio client, as desktop hosts have it, driven line by line: node stdio.mjs COMMAND [ARG]... starts COMMAND
// as its server and reads what to do from its own standard input:
//
//   list            tools/list
//   echo TEXT       the tool echo
//   count NOTE MS   the tool count; more than one may run
//   end             closes the client, and ends
//
// It prints one JSON object a line: {"step": LINE, "ok": true, "text": ...}, or "ok": false with code, message and data. The first
// is for connecting, the last for the end, and says how many responses there were and how many came twice.

import { createInterface } from 'node:readline';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';

const [command, ...args] = process.argv.slice(2);
const print = line => process.stdout.write(`${JSON.stringify(line)}\n`);
const client = new Client({ name: 'host', version: '1' }, { capabilities: {} });
const transport = new StdioClientTransport({ command, args, stderr: 'inherit', env: process.env });
const seen = new Map();
let changes = 0;
client.setNotificationHandler(ToolListChangedNotificationSchema, () => void (changes += 1));

async function step(name, work) {
  try {
    print({ step: name, ok: true, ...(await work()) });
  } catch (error) {
    print({ step: name, ok: false, code: error?.code, message: String(error?.message ?? error), data: error?.data });
  }
}

await step('connect', async () => {
  await client.connect(transport);
  const hear = transport.onmessage;
  transport.onmessage = message => {
    if (message.id !== undefined && message.method === undefined) seen.set(message.id, (seen.get(message.id) ?? 0) + 1);
    hear(message);
  };
  return { server: client.getServerVersion()?.name };
});

const call = (name, tool, values) => step(name, async () => {
  const result = await client.callTool({ name: tool, arguments: values });
  return { text: result.content[0].text };
});

for await (const line of createInterface({ input: process.stdin })) {
  const [what, ...words] = line.split(' ');
  if (what === 'list') void step(line, async () => ({ tools: (await client.listTools()).tools.map(tool => tool.name) }));
  else if (what === 'echo') void call(line, 'echo', { text: words.join(' ') });
  else if (what === 'count') void call(line, 'count', { note: words[0], ms: Number(words[1]) });
  else break;
}
await client.close();
const responses = [...seen.values()];
print({ step: 'end', ok: true, responses: responses.length, twice: responses.filter(count => count > 1).length, changes });
process.exit(0);
