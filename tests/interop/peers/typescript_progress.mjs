// The official TypeScript client calls a tool that reports progress until it ends: `node typescript_progress.mjs JOB`.
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const job = JSON.parse(process.argv[2]);
const [command, ...args] = job.command;
const client = new Client({ name: 'typescript-progress', version: '1' }, { versionNegotiation: { mode: job.mode } });
const complaints = [];
client.onerror = (error) => complaints.push(error.message);
await client.connect(new StdioClientTransport({ command, args }));

const calls = [];
for (const name of job.text.split(' ')) {
  const seen = [];
  await client.callTool({ name, arguments: {} }, { onprogress: (report) => seen.push(report.progress) });
  calls.push(seen);
}
await client.close();
console.log(JSON.stringify({ calls, complaints }));
