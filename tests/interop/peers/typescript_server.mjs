// A server on the TypeScript SDK 2.x: one of each feature that a client can use. Over HTTP with a port as argument. Runs from the
// folder of its packages.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node';
import { McpServer, ResourceTemplate, completable, createMcpHandler, inputRequired, inputResponse } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import * as z from 'zod';

const notes = { first: 'The first note.' };
const names = ['Ada', 'Alan', 'Grace'];
const text = (said) => ({ content: [{ type: 'text', text: said }] });
let wasCancelled;
let notifier; // over HTTP, where a modern request has a server of its own and changes go to the listens of all
const cancelled = new Promise((resolve) => (wasCancelled = resolve));

const makeServer = () => {
  const server = new McpServer(
    { name: 'typescript-2', version: '1.0' },
    { capabilities: { logging: {}, tools: { listChanged: true }, resources: { subscribe: true, listChanged: true } } },
  );
  const progress = async (ctx, message) => {
    const progressToken = ctx.mcpReq._meta?.progressToken;
    if (progressToken === undefined) return;
    await ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress: 0.5, total: 1, message } });
  };

  server.registerTool('echo', { inputSchema: z.object({ text: z.string() }) }, async (given, ctx) => {
    await progress(ctx, 'echoing');
    return text(given.text);
  });
  const weather = z.object({ city: z.string(), celsius: z.number() });
  server.registerTool('weather', { inputSchema: z.object({ city: z.string() }), outputSchema: weather }, async ({ city }) => {
    const structuredContent = { city, celsius: 7.5 };
    return { ...text(JSON.stringify(structuredContent)), structuredContent };
  });
  server.registerTool('wait_for_ever', {}, async (ctx) => {
    await progress(ctx, 'waiting');
    await new Promise((resolve) => ctx.mcpReq.signal.addEventListener('abort', resolve));
    wasCancelled();
    return text('never read');
  });
  server.registerTool('wait_until_cancelled', {}, async () => {
    await cancelled;
    return text('cancelled');
  });

  // In a session the SDK sends the questions of a result as requests.
  server.registerTool('ask', {}, async (ctx) => {
    const who = inputResponse(ctx.mcpReq.inputResponses, 'who');
    if (who.kind === 'missing') {
      const form = { message: 'Who are you?', requestedSchema: z.object({ name: z.string() }) };
      return inputRequired({ inputRequests: { who: inputRequired.elicit(form) } });
    }
    return text(who.action === 'accept' ? `Hello, ${who.content.name}` : `the user said ${who.action}`);
  });
  server.registerTool('sample', {}, async (ctx) => {
    const thought = inputResponse(ctx.mcpReq.inputResponses, 'thought');
    if (thought.kind === 'missing') {
      const messages = [{ role: 'user', content: { type: 'text', text: 'hm' } }];
      return inputRequired({ inputRequests: { thought: inputRequired.createMessage({ messages, maxTokens: 10 }) } });
    }
    return text(thought.result.content.text);
  });
  server.registerTool('roots', {}, async (ctx) => {
    const places = inputResponse(ctx.mcpReq.inputResponses, 'places');
    if (places.kind === 'missing') return inputRequired({ inputRequests: { places: inputRequired.listRoots() } });
    return text(places.roots.map((root) => root.uri).join(' '));
  });
  server.registerTool('log', {}, async (ctx) => {
    await ctx.mcpReq.log('info', 'written down');
    return text('logged');
  });
  server.registerTool('touch', { inputSchema: z.object({ text: z.string() }) }, async (given) => {
    notes.first = given.text;
    notifier?.resourceUpdated('note://first');
    await server.server.sendResourceUpdated({ uri: 'note://first' });
    return text('touched');
  });
  server.registerTool('mutate', {}, async () => {
    notifier?.toolsChanged();
    server.sendToolListChanged();
    return text('mutated');
  });

  const plain = { mimeType: 'text/plain' };
  server.registerResource('first', 'note://first', plain, async (uri) => ({
    contents: [{ uri: 'note://first', ...plain, text: notes.first }],
  }));
  server.registerResource('poem', new ResourceTemplate('poem://{name}', { list: undefined }), plain, async (uri, { name }) => ({
    contents: [{ uri: `poem://${name}`, ...plain, text: `O ${name}!` }],
  }));
  const starting = (typed) => names.filter((name) => name.startsWith(typed));
  server.registerPrompt('greet', { argsSchema: z.object({ name: completable(z.string(), starting) }) }, ({ name }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `Please greet ${name}.` } }],
  }));
  server.server.setRequestHandler('resources/subscribe', async () => ({}));
  server.server.setRequestHandler('resources/unsubscribe', async () => ({}));
  return server;
};

const port = process.argv[2];
if (port === undefined) {
  serveStdio(makeServer);
} else {
  // The handler serves modern requests. A session needs a transport of its own.
  const handler = createMcpHandler(makeServer, { legacy: 'reject' });
  notifier = handler.notify;
  const modern = toNodeHandler(handler);
  const sessions = new Map();
  const legacy = async (request, response) => {
    let transport = sessions.get(request.headers['mcp-session-id']);
    if (transport === undefined) {
      const onsessioninitialized = (id) => sessions.set(id, transport);
      transport = new NodeStreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, onsessioninitialized });
      await makeServer().connect(transport);
    }
    await transport.handleRequest(request, response);
  };
  const isModern = (request) => (request.headers['mcp-protocol-version'] ?? '') >= '2026';
  createServer((request, response) => (isModern(request) ? modern : legacy)(request, response)).listen(Number(port), '127.0.0.1');
}
