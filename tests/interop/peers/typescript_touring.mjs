// Use every feature of a server with the official TypeScript client: `node typescript_touring.mjs CMD...`.
// Runs from the folder of its packages.
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const [command, ...args] = process.argv.slice(2);
// Milliseconds to wait for a response: a value that a host would choose.
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

// The tour continues after a failure.
const tried = (promise, otherwise) => promise.catch(() => otherwise);

await client.connect(new StdioClientTransport({ command, args, stderr: 'ignore' }), { timeout });
const modern = client.getNegotiatedProtocolVersion() >= '2026';
// Use only features that the server declares; the first revision has completion, but no capability for it.
const can = client.getServerCapabilities() ?? {};
const completes = can.completions || client.getNegotiatedProtocolVersion() === '2024-11-05';
const nothing = { resources: [], prompts: [] };
for (const { name } of (await tried(client.listTools({}, { timeout }), { tools: [] })).tools) {
  await tried(client.callTool({ name, arguments: {} }, { timeout, onprogress: () => {} }));
}
for (const { uri } of (can.resources ? await tried(client.listResources({}, { timeout }), nothing) : nothing).resources) {
  await tried(client.readResource({ uri }, { timeout }));
}
if (can.resources) await tried(client.listResourceTemplates({}, { timeout }));
for (const { name, arguments: wanted } of (can.prompts ? await tried(client.listPrompts({}, { timeout }), nothing) : nothing).prompts) {
  await tried(client.getPrompt({ name, arguments: Object.fromEntries((wanted ?? []).map((each) => [each.name, '3'])) }, { timeout }));
}
const ref = { type: 'ref/resource', uri: 'fake://notes/{name}' };
if (completes) await tried(client.complete({ ref, argument: { name: 'name', value: 'a' } }, { timeout }));
if (modern) {
  const notes = can.resources?.subscribe ? ['fake://note'] : [];
  const watched = await tried(client.listen({ toolsListChanged: true, resourceSubscriptions: notes }, { timeout }));
  await tried(client.listTools({}, { timeout }));
  if (watched) await tried(watched.close());
} else {
  if (can.logging) await tried(client.setLoggingLevel('info', { timeout }));
  if (can.resources?.subscribe) {
    await tried(client.subscribeResource({ uri: 'fake://note' }, { timeout }));
    await tried(client.unsubscribeResource({ uri: 'fake://note' }, { timeout }));
  }
  await tried(client.ping({ timeout }));
}
await client.close();
