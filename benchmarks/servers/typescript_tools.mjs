// The tools of the benchmark, on the TypeScript SDK 2.x. It runs from the folder of its packages.
import { McpServer } from '@modelcontextprotocol/server';
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio';
import * as z from 'zod';

const said = (text) => ({ content: [{ type: 'text', text }] });
// By default it closes the connection at 10 MB, and there would be nothing to measure.
const transport = new StdioServerTransport(process.stdin, process.stdout, { maxBufferSize: 128 * 1024 * 1024 });

serveStdio(
  () => {
    const server = new McpServer({ name: 'typescript', version: '1.0' });
    const text = z.object({ text: z.string() });
    server.registerTool('echo', { inputSchema: text }, async (given) => said(given.text));
    server.registerTool('echo_def', { inputSchema: text }, (given) => said(given.text));
    const weather = z.object({ city: z.string(), celsius: z.number() });
    server.registerTool('weather', { inputSchema: z.object({ city: z.string() }), outputSchema: weather }, async ({ city }) => {
      const structuredContent = { city, celsius: 7.5 };
      return { ...said(JSON.stringify(structuredContent)), structuredContent };
    });
    server.registerTool('swallow', { inputSchema: text }, async (given) => said(String(given.text.length)));
    server.registerTool('produce', { inputSchema: z.object({ size: z.number() }) }, async ({ size }) => said('x'.repeat(size)));
    server.registerTool('pause', { inputSchema: z.object({ seconds: z.number() }) }, async ({ seconds }) => {
      await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
      return said('done');
    });
    return server;
  },
  { transport },
);
