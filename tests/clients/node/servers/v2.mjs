// An HTTP server on @modelcontextprotocol/server, version 2: its one handler, which serves 2026-07-28, and the older revisions
// without sessions. node v2.mjs PORT LEDGER; the tools are those of every server here (see tests/README.md).

import { createServer } from 'node:http';
import { appendFileSync } from 'node:fs';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { McpServer, createMcpHandler } from '@modelcontextprotocol/server';
import { z } from 'zod';

const [port, ledger] = process.argv.slice(2);
const text = value => ({ content: [{ type: 'text', text: value }] });

const handler = createMcpHandler(() => {
  const server = new McpServer({ name: 'typescript-2', version: '1' });
  server.registerTool('echo', { inputSchema: z.object({ text: z.string() }) }, ({ text: value }) => text(value));
  const counted = z.object({ note: z.string(), ms: z.number() });
  server.registerTool('count', { inputSchema: counted }, async ({ note, ms }) => {
    appendFileSync(ledger, `${note}\n`);
    await sleep(ms);
    return text(`counted ${note}`);
  });
  return server;
});

createServer(async (request, response) => {
  const left = new AbortController();
  response.on('close', () => left.abort());
  const hasBody = request.method === 'POST';
  const asked = new Request(`http://${request.headers.host}${request.url}`, {
    method: request.method,
    headers: Object.entries(request.headers).map(([name, value]) => [name, String(value)]),
    body: hasBody ? Readable.toWeb(request) : undefined,
    duplex: hasBody ? 'half' : undefined,
    signal: left.signal,
  });
  const answer = await handler.fetch(asked);
  response.writeHead(answer.status, Object.fromEntries(answer.headers));
  response.flushHeaders();
  try {
    for await (const chunk of answer.body ?? []) response.write(chunk);
  } catch {
    // The client has gone.
  }
  response.end();
}).listen(Number(port), '127.0.0.1', () => console.log('ready'));
