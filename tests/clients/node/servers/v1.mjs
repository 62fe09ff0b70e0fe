// An HTTP server on @modelcontextprotocol/sdk, version 1, wired as its examples do it: sessions in memory, no event store.
// node v1.mjs PORT LEDGER; the tools are those of every server here (see tests/README.md).

import { createServer } from 'node:http';
import { appendFileSync } from 'node:fs';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { isInitializeRequest } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';

const [port, ledger] = process.argv.slice(2);
const transports = new Map();
const text = value => ({ content: [{ type: 'text', text: value }] });

function server() {
  const server = new McpServer({ name: 'typescript-1', version: '1' });
  server.registerTool('echo', { inputSchema: { text: z.string() } }, ({ text: value }) => text(value));
  server.registerTool('count', { inputSchema: { note: z.string(), ms: z.number() } }, async ({ note, ms }) => {
    appendFileSync(ledger, `${note}\n`);
    await sleep(ms);
    return text(`counted ${note}`);
  });
  return server;
}

async function body(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return chunks.length ? JSON.parse(Buffer.concat(chunks)) : undefined;
}

const refuse = (response, status, message) => {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ jsonrpc: '2.0', error: { code: -32000, message }, id: null }));
};

createServer(async (request, response) => {
  const message = await body(request);
  const id = request.headers['mcp-session-id'];
  let transport = transports.get(id);
  if (!transport) {
    if (id || request.method !== 'POST' || !isInitializeRequest(message)) {
      return refuse(response, 400, 'Bad Request: No valid session ID provided');
    }
    transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: fresh => transports.set(fresh, transport),
    });
    transport.onclose = () => transports.delete(transport.sessionId);
    await server().connect(transport);
  }
  await transport.handleRequest(request, response, message);
}).listen(Number(port), '127.0.0.1', () => console.log('ready'));
