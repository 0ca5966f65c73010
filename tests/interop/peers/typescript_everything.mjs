// The tour of the official TypeScript client: `node typescript_everything.mjs JOB`. Runs from the folder of its packages.
import { readFileSync } from 'node:fs';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const job = JSON.parse(process.argv[2]);
const installed = new URL('node_modules/@modelcontextprotocol/client/package.json', import.meta.url);
const version = JSON.parse(readFileSync(installed)).version;

// Notifications; next() waits until one arrives.
class Arrivals {
  waiting = [];
  here = [];
  put(item) {
    const first = this.waiting.shift();
    first ? first(item) : this.here.push(item);
  }
  next() {
    return this.here.length ? Promise.resolve(this.here.shift()) : new Promise((resolve) => this.waiting.push(resolve));
  }
}

const client = new Client(
  { name: 'typescript-client', version },
  {
    capabilities: { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} },
    ...(job.mode === null ? {} : { versionNegotiation: { mode: job.mode } }),
  },
);
const complaints = [];
client.onerror = (error) => complaints.push(error.message);

const FORMS = { name: { name: 'Ada', age: 36 }, favourite: { favourite: 'green', others: ['red', 'blue'] } };
let action = 'accept';
const questions = [];
client.setRequestHandler('elicitation/create', ({ params }) => {
  if (params.mode === 'url') {
    questions.push(`${params.message} ${params.url}`);
    return { action };
  }
  questions.push(params.message);
  const [field] = Object.keys(params.requestedSchema.properties);
  return action === 'accept' ? { action, content: FORMS[field] } : { action };
});
client.setRequestHandler('sampling/createMessage', ({ params }) => ({
  role: 'assistant',
  model: 'none',
  content: { type: 'text', text: `the model heard: ${params.messages[0].content.text}` },
}));
client.setRequestHandler('roots/list', () => ({ roots: [{ uri: 'file:///home/ada' }] }));
const logged = new Arrivals();
client.setNotificationHandler('notifications/message', ({ params }) => logged.put([params.level, params.data, params.logger]));
const arrived = new Arrivals();
client.setNotificationHandler('notifications/resources/updated', ({ method, params }) => arrived.put([method, params.uri]));
client.setNotificationHandler('notifications/tools/list_changed', ({ method }) => arrived.put([method]));

const transport = job.url
  ? new StreamableHTTPClientTransport(new URL(job.url))
  : new StdioClientTransport({ command: job.command[0], args: job.command.slice(1) });
await client.connect(transport);
const revision = client.getNegotiatedProtocolVersion();
const modern = revision >= '2026';
const call = (name, args_, options, _meta) =>
  client.callTool({ name, arguments: args_, ...(_meta ? { _meta } : {}) }, options);
const read = async (uri) => (await client.readResource({ uri })).contents;
const messages = async (name, args_) => (await client.getPrompt({ name, arguments: args_ })).messages;
const complete = async (ref, name, value) => (await client.complete({ ref, argument: { name, value } })).completion;
const textOf = (result) => result.content[0].text;

// The client collects all pages itself.
const found = { tools: (await client.listTools()).tools.map((tool) => tool.name) };
found.calls = {
  echo: await call('echo', { text: 'h\u00e9llo\n\u2028' }),
  structured: await call('structured', { city: 'Bergen', celsius: 7.5 }),
  numbers: await call('numbers', { count: 3 }),
  fail: await call('fail', {}),
  boom: await call('boom', {}),
};
found.blocks = await call('blocks', {}).then((result) => result.content).catch((error) => error.message);
found.resources = (await client.listResources()).resources.map((resource) => resource.uri);
found.templates = (await client.listResourceTemplates()).resourceTemplates.map((template) => template.uriTemplate);
found.read = {};
for (const uri of ['note://first', 'image://pixel', 'note://second']) found.read[uri] = await read(uri);
found.prompts = (await client.listPrompts()).prompts.map((prompt) => prompt.name);
found.review = await messages('review', { code: 'pass', language: 'rust' });
found.dialogue = await messages('dialogue', { topic: 'tea' });
found.completed = [
  await complete({ type: 'ref/prompt', name: 'dialogue' }, 'topic', 'topic-1'),
  await complete({ type: 'ref/prompt', name: 'review' }, 'language', 'r'),
  await complete({ type: 'ref/resource', uri: 'note://{name}' }, 'name', 's'),
];

found.asked = {};
for (const name of ['ask', 'ask_twice', 'ask_at_once', 'ask_from_a_thread', 'ask_url']) found.asked[name] = textOf(await call(name, {}));
found.asked['gated://secret'] = await read('gated://secret');
found.asked.gated_prompt = await messages('gated_prompt', {});
action = 'decline';
found.asked['ask, declined'] = textOf(await call('ask', {}));
found.asked.sample = textOf(await call('sample', { prompt: 'hm' }));
found.asked.roots = (await call('roots_tool', {})).structuredContent.result;
found.questions = questions;

if (modern) {
  await call('log', {}, undefined, { 'io.modelcontextprotocol/logLevel': 'warning' });
} else {
  await client.setLoggingLevel('warning');
  await call('log', {});
}
found.logged = [await logged.next()];
while (found.logged.at(-1)[0] !== 'emergency') found.logged.push(await logged.next());

found.progress = [];
const onprogress = (report) => found.progress.push([report.progress, report.total, report.message]);
found.slow = textOf(await call('slow', { steps: 3 }, { onprogress }));

const watched = modern
  ? await client.listen({ toolsListChanged: true, resourceSubscriptions: ['note://first'] })
  : await client.subscribeResource({ uri: 'note://first' });
await call('touch', { text: 'A new note.' });
found.changes = [await arrived.next()];
found.touched = await read('note://first');
for (let turn = 0; turn < 2; turn++) {
  await call('mutate', {});
  found.changes.push(await arrived.next());
  found.changes.push((await client.listTools()).tools.map((tool) => tool.name).filter((name) => name === 'extra'));
}
modern ? await watched.close() : await client.unsubscribeResource({ uri: 'note://first' });

// The call to be cancelled is known to be running once it has reported progress.
const enough = new AbortController();
const options = { signal: enough.signal, onprogress: () => enough.abort('the tour has seen enough') };
found.cancelled = await call('slow', { steps: 1_000_000, seconds: 0.01 }, options).catch((error) => error.message);
found.afterwards = textOf(await call('echo', { text: 'still here' }));
await call('touch', { text: 'Not watched.' });
await client.close();
console.log(JSON.stringify({ peer: `@modelcontextprotocol/client ${version}`, revision, complaints, ...found }));
