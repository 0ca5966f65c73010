// Serve the echo tool over HTTP with the TypeScript SDK 2.x: typescript.mjs PORT. It runs from the folder of its packages.
import { createServer } from 'node:http';

import { toNodeHandler } from '@modelcontextprotocol/node';
import { McpServer, createMcpHandler } from '@modelcontextprotocol/server';
import * as z from 'zod';

const handler = createMcpHandler(() => {
  const server = new McpServer({ name: 'typescript', version: '1.0' });
  const text = z.object({ text: z.string() });
  const output = z.object({ result: z.string() });
  server.registerTool('echo', { inputSchema: text, outputSchema: output }, async (given) => ({
    content: [{ type: 'text', text: given.text }],
    structuredContent: { result: given.text },
  }));
  return server;
});

createServer(toNodeHandler(handler)).listen(Number(process.argv[2]), '127.0.0.1');
