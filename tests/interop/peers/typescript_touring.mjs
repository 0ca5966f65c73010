// Does all there is to do with a server, by the official TypeScript client: `node typescript_touring.mjs CMD...`.
// It runs from the folder of its packages.
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const [command, ...args] = process.argv.slice(2);
// Milliseconds for an answer: what a host would set, too.
const timeout = 5000;
const client = new Client(
  { name: 'typescript-touring', version: '1.0' },
  {
    capabilities: { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} },
    versionNegotiation: { mode: 'auto' },
  },
);
client.onerror = () => {};
client.setRequestHandler('elicitation/create', ({ params }) =>
  params.mode === 'url' ? { action: 'decline' } : { action: 'accept', content: { name: 'Anna' } },
);
client.setRequestHandler('sampling/createMessage', () => ({
  role: 'assistant',
  model: 'none',
  content: { type: 'text', text: 'Hi' },
}));
client.setRequestHandler('roots/list', () => ({ roots: [{ uri: 'file:///home/anna' }] }));
client.setNotificationHandler('notifications/message', () => {});

// One failure does not keep the tour from going on.
const tried = (promise, otherwise) => promise.catch(() => otherwise);

await client.connect(new StdioClientTransport({ command, args, stderr: 'ignore' }), { timeout });
const modern = client.getNegotiatedProtocolVersion() >= '2026';
for (const { name } of (await tried(client.listTools({}, { timeout }), { tools: [] })).tools) {
  await tried(client.callTool({ name, arguments: {} }, { timeout, onprogress: () => {} }));
}
for (const { uri } of (await tried(client.listResources({}, { timeout }), { resources: [] })).resources) {
  await tried(client.readResource({ uri }, { timeout }));
}
await tried(client.listResourceTemplates({}, { timeout }));
for (const { name } of (await tried(client.listPrompts({}, { timeout }), { prompts: [] })).prompts) {
  await tried(client.getPrompt({ name }, { timeout }));
}
const ref = { type: 'ref/resource', uri: 'posing://notes/{name}' };
await tried(client.complete({ ref, argument: { name: 'name', value: 'a' } }, { timeout }));
if (modern) {
  const watched = await tried(client.listen({ toolsListChanged: true, resourceSubscriptions: ['posing://note'] }, { timeout }));
  await tried(client.listTools({}, { timeout }));
  if (watched) await tried(watched.close());
} else {
  await tried(client.setLoggingLevel('info', { timeout }));
  await tried(client.subscribeResource({ uri: 'posing://note' }, { timeout }));
  await tried(client.unsubscribeResource({ uri: 'posing://note' }, { timeout }));
  await tried(client.ping({ timeout }));
}
await client.close();
