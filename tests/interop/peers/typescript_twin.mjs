// The twin of examples/everything.py on the TypeScript SDK 2.x, as far as it supports the same features.
// Runs from the folder of its packages.
import {
  McpServer,
  ResourceNotFoundError,
  ResourceTemplate,
  acceptedContent,
  completable,
  inputRequired,
  inputResponse,
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import * as z from 'zod';

const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const SILENCE = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=';
const LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];
const annotations = { readOnlyHint: true, idempotentHint: true };

const notes = { first: 'The first note.', second: 'The second note.' };
const watched = new Set();
const text = (said) => ({ content: [{ type: 'text', text: said }] });
const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

serveStdio(() => {
  const server = new McpServer(
    { name: 'typescript-twin', title: 'Everything', version: '1.0' },
    {
      instructions: 'For tests: call anything.',
      capabilities: { logging: {}, tools: { listChanged: true }, resources: { subscribe: true, listChanged: true } },
    },
  );

  // Tools that return, fail, or are slow
  server.registerTool('echo', { annotations, inputSchema: z.object({ text: z.string() }) }, async (given) => text(given.text));
  const sum = z.object({ a: z.int(), b: z.int().default(0) });
  server.registerTool('add', { inputSchema: sum }, async ({ a, b }) => text(String(a + b)));
  const weather = z.object({ city: z.string(), celsius: z.number(), conditions: z.enum(['sun', 'rain', 'snow']) });
  const place = z.object({ city: z.string(), celsius: z.number().default(20) });
  server.registerTool('structured', { annotations, inputSchema: place, outputSchema: weather }, async ({ city, celsius }) => {
    const structuredContent = { city, celsius, conditions: celsius > 0 ? 'sun' : 'snow' };
    return { ...text(JSON.stringify(structuredContent)), structuredContent };
  });
  const count = z.object({ count: z.int().min(0).max(1000) });
  server.registerTool('numbers', { inputSchema: count, outputSchema: z.object({ result: z.array(z.int()) }) }, async (given) => {
    const structuredContent = { result: [...Array(given.count).keys()] };
    return { ...text(JSON.stringify(structuredContent)), structuredContent };
  });
  server.registerTool('blocks', {}, async () => ({
    content: [
      { type: 'text', text: 'a text' },
      { type: 'image', data: PIXEL, mimeType: 'image/png' },
      { type: 'audio', data: SILENCE, mimeType: 'audio/wav' },
      { type: 'resource_link', uri: 'note://first', name: 'first', mimeType: 'text/plain' },
    ],
  }));
  server.registerTool('fail', {}, async () => ({ ...text('This tool always fails.'), isError: true }));
  server.registerTool('boom', {}, async () => {
    throw new Error('secret details');
  });
  const work = z.object({ steps: z.int().default(100), seconds: z.number().default(0.05) });
  server.registerTool('slow', { inputSchema: work }, async ({ steps, seconds }, ctx) => {
    const progressToken = ctx.mcpReq._meta?.progressToken;
    for (let step = 1; step <= steps && !ctx.mcpReq.signal.aborted; step++) {
      await pause(seconds);
      if (progressToken === undefined || ctx.mcpReq.signal.aborted) continue;
      const params = { progressToken, progress: step, total: steps, message: `step ${step}` };
      await ctx.mcpReq.notify({ method: 'notifications/progress', params });
    }
    return text(`${steps} steps`);
  });
  server.registerTool('log', {}, async (ctx) => {
    for (const level of LEVELS) await ctx.mcpReq.log(level, { says: level }, 'everything');
    return text('logged');
  });

  // Tools that ask. In a session the SDK sends the questions of a result as requests.
  const person = z.object({ name: z.string().min(1), age: z.int().min(0).max(150) });
  server.registerTool('ask', {}, async (ctx) => {
    const who = inputResponse(ctx.mcpReq.inputResponses, 'who');
    if (who.kind === 'missing') {
      return inputRequired({ inputRequests: { who: inputRequired.elicit({ message: 'Who are you?', requestedSchema: person }) } });
    }
    if (who.action !== 'accept') return text(`the user said ${who.action}`);
    const filled = acceptedContent(ctx.mcpReq.inputResponses, 'who', person);
    return filled ? text(`${filled.name} is ${filled.age}`) : { ...text('That is not a name and an age.'), isError: true };
  });
  server.registerTool('ask_url', {}, async (ctx) => {
    const visit = inputResponse(ctx.mcpReq.inputResponses, 'visit');
    if (visit.kind === 'missing') {
      const page = { message: 'Please log in.', url: 'https://login.example/start' };
      return inputRequired({ inputRequests: { visit: inputRequired.elicitUrl(page) } });
    }
    return text(visit.action);
  });
  server.registerTool('sample', { inputSchema: z.object({ prompt: z.string() }) }, async ({ prompt }, ctx) => {
    const thought = inputResponse(ctx.mcpReq.inputResponses, 'thought');
    if (thought.kind === 'missing') {
      const messages = [{ role: 'user', content: { type: 'text', text: prompt } }];
      return inputRequired({ inputRequests: { thought: inputRequired.createMessage({ messages, maxTokens: 100 }) } });
    }
    return text(thought.result.content.text);
  });
  server.registerTool('roots_tool', {}, async (ctx) => {
    const places = inputResponse(ctx.mcpReq.inputResponses, 'places');
    if (places.kind === 'missing') return inputRequired({ inputRequests: { places: inputRequired.listRoots() } });
    return text(places.roots.map((root) => root.uri).join(' '));
  });

  // Tools that change the server; the SDK notifies the client of a tool that is added or removed.
  let extra;
  server.registerTool('mutate', {}, async () => {
    if (extra) {
      extra.remove();
      extra = undefined;
    } else {
      extra = server.registerTool('extra', {}, async () => text('extra'));
    }
    return text('mutated');
  });
  const change = z.object({ name: z.string().default('first'), text: z.string().default('changed') });
  server.registerTool('touch', { inputSchema: change }, async (given, ctx) => {
    notes[given.name] = given.text;
    const uri = `note://${given.name}`;
    // The SDK keeps the listeners of the stateless wire; we keep the subscriptions of a session.
    if (watched.has(uri) || modern) await server.server.sendResourceUpdated({ uri });
    return text(given.name);
  });
  let modern = true;
  server.server.oninitialized = () => (modern = false);
  server.server.setRequestHandler('resources/subscribe', async ({ params }) => {
    watched.add(params.uri);
    return {};
  });
  server.server.setRequestHandler('resources/unsubscribe', async ({ params }) => {
    watched.delete(params.uri);
    return {};
  });

  // Resources and prompts
  const plain = { mimeType: 'text/plain' };
  server.registerResource('first', 'note://first', plain, async () => ({
    contents: [{ uri: 'note://first', ...plain, text: notes.first }],
  }));
  server.registerResource('pixel', 'image://pixel', { mimeType: 'image/png' }, async () => ({
    contents: [{ uri: 'image://pixel', mimeType: 'image/png', blob: PIXEL }],
  }));
  server.registerResource('broken', 'broken://always', plain, async () => {
    throw new Error('disk on fire');
  });
  const starting = (values) => (typed) => values().filter((value) => value.startsWith(typed));
  const template = new ResourceTemplate('note://{name}', { list: undefined, complete: { name: starting(() => Object.keys(notes)) } });
  server.registerResource('note', template, plain, async (uri, { name }) => {
    if (!(name in notes)) throw new ResourceNotFoundError(`note://${name}`);
    return { contents: [{ uri: `note://${name}`, ...plain, text: notes[name] }] };
  });
  const message = (said) => ({ messages: [{ role: 'user', content: { type: 'text', text: said } }] });
  const code = z.object({ code: z.string(), language: z.string().optional() });
  server.registerPrompt('review', { title: 'Code review', argsSchema: code }, ({ code, language }) =>
    message(`Please review this ${language ?? 'python'} code:\n${code}`),
  );
  const topics = Array.from({ length: 250 }, (_, number) => `topic-${number}`);
  const topic = z.object({ topic: completable(z.string(), starting(() => topics)) });
  server.registerPrompt('dialogue', { argsSchema: topic }, ({ topic }) => message(`Let us talk about ${topic}.`));
  return server;
});
