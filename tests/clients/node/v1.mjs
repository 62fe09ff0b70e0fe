// The TypeScript SDK, version 1: what most clients in the field are built on. Stock settings.
//
// It resumes a stream only after it saw a priming event (or on its standalone stream), and gives up after two failed
// attempts in a row, silently: the call then waits for its own time-out.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema } from '@modelcontextprotocol/sdk/types.js';

import { answers, CAPABILITIES, CLIENT_INFO, main } from './lib/scenarios.mjs';

await main(async (options, wire, asked) => {
  const client = new Client(CLIENT_INFO, { capabilities: CAPABILITIES });
  const answer = answers(asked);
  client.setRequestHandler(ElicitRequestSchema, answer.elicitation);
  client.setRequestHandler(CreateMessageRequestSchema, answer.sampling);
  client.setRequestHandler(ListRootsRequestSchema, answer.roots);
  const transport = new StreamableHTTPClientTransport(options.url, { fetch: wire.fetch });
  await client.connect(transport);
  return {
    client,
    transport,
    call: (name, args, requestOptions) => client.callTool({ name, arguments: args }, undefined, requestOptions),
    revision: transport.protocolVersion,
    era: 'legacy',
    serverInfo: client.getServerVersion(),
    sessionId: () => transport.sessionId,
    terminate: () => transport.terminateSession(),
  };
});
