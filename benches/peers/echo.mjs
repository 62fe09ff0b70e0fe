// The echo on the TypeScript SDK, without sessions and with answers in JSON: a server and a transport for each request, as its README says.
import { createServer } from 'node:http';
import { NodeStreamableHTTPServerTransport } from '@modelcontextprotocol/node';
import { McpServer } from '@modelcontextprotocol/server';
import * as z from 'zod/v4';

const http = createServer(async (request, response) => {
    const server = new McpServer({ name: 'echo', version: '1' });
    const tool = { description: 'Says it back', inputSchema: z.object({ text: z.string() }) };
    server.registerTool('echo', tool, async ({ text }) => ({ content: [{ type: 'text', text }] }));
    const transport = new NodeStreamableHTTPServerTransport({ sessionIdGenerator: undefined, enableJsonResponse: true });
    response.on('close', () => void server.close());
    await server.connect(transport);
    await transport.handleRequest(request, response);
});
http.listen(0, '127.0.0.1', () => console.log(`listening ${http.address().port}`));
