// The TypeScript SDK, version 2. By default it connects as a legacy client: a plain `initialize` that asks for
// 2025-11-25, with no probe and no modern header before it. With `--mode auto` it asks `server/discover` first and falls
// back to the same `initialize` when the answer is no modern one; with `--mode modern` it does not fall back. It resumes as version 1 does (see v1.mjs), but takes a
// JSON-RPC error as the response.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

import { answers, CAPABILITIES, CLIENT_INFO, main } from './lib/scenarios.mjs';

await main(async (options, wire, asked) => {
  const mode = options.mode === 'modern' ? { pin: '2026-07-28' } : options.mode;
  const client = new Client(CLIENT_INFO, { capabilities: CAPABILITIES, versionNegotiation: { mode } });
  const answer = answers(asked);
  client.setRequestHandler('elicitation/create', answer.elicitation);
  client.setRequestHandler('sampling/createMessage', answer.sampling);
  client.setRequestHandler('roots/list', answer.roots);
  const transport = new StreamableHTTPClientTransport(options.url, { fetch: wire.fetch });
  await client.connect(transport);
  return {
    client,
    transport,
    call: (name, args, requestOptions) => client.callTool({ name, arguments: args }, requestOptions),
    revision: client.getNegotiatedProtocolVersion(),
    era: client.getProtocolEra(),
    serverInfo: client.getServerVersion(),
    sessionId: () => transport.sessionId,
    terminate: () => transport.terminateSession(),
  };
});
