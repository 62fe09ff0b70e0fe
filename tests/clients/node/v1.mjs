// The TypeScript SDK, version 1: what most clients in the field are built on. Stock settings.
//
// It resumes a stream from the newest id that the last connection showed, however that ended, as often as it is cut: a GET
// that was answered starts the count of attempts again. A connection that showed no id ends the matter, and so do two GETs
// in a row that were not answered: silently, so the call then waits for its own time-out. `retry` is remembered for the
// whole client, not for the stream. A JSON-RPC error does not count as the response: it asks once more after one.

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
