// The official TypeScript client: `node typescript_client.mjs JOB`. Runs from the folder of its packages.
import { readFileSync } from 'node:fs';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const job = JSON.parse(process.argv[2]);
const [command, ...args] = job.command;
const installed = new URL('node_modules/@modelcontextprotocol/client/package.json', import.meta.url);
const version = JSON.parse(readFileSync(installed)).version;

const options = job.mode === null ? {} : { versionNegotiation: { mode: job.mode } };
const client = new Client({ name: 'typescript-client', version }, options);
const complaints = [];
client.onerror = (error) => complaints.push(error.message);
await client.connect(new StdioClientTransport({ command, args }));

const tools = await client.listTools();
const progress = [];
const echoed = await client.callTool(
  { name: 'echo', arguments: { text: job.text } },
  { onprogress: (report) => progress.push([report.progress, report.total, report.message]) },
);
let refusal;
try {
  refusal = { result: await client.callTool({ name: 'no-such-tool', arguments: {} }) };
} catch (error) {
  refusal = { code: error.code, message: error.message };
}
const server = client.getServerVersion();
const findings = {
  peer: `@modelcontextprotocol/client ${version}`,
  revision: client.getNegotiatedProtocolVersion(),
  server: server && `${server.name} ${server.version}`,
  tools: tools.tools.map((tool) => tool.name),
  answer: echoed.content[0].text,
  progress,
  complaints,
  refusal,
};
await client.close();
console.log(JSON.stringify(findings));
