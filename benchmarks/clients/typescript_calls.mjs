// The official TypeScript client: `node typescript_calls.mjs JOB`. It runs from the folder of its packages.
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const job = { servers: 1, text: 'hello', ...JSON.parse(process.argv[2]) };
const [command, ...args] = job.command;
const mode = job.era === 'legacy' ? 'legacy' : { pin: '2026-07-28' };

// By default it closes the connection at 10 MB, and there would be nothing to measure.
const maxBufferSize = 128 * 1024 * 1024;

const started = performance.now();
const clients = await Promise.all(
  Array.from({ length: job.servers }, async () => {
    const client = new Client({ name: 'bench', version: '1' }, { versionNegotiation: { mode } });
    await client.connect(new StdioClientTransport({ command, args, maxBufferSize }));
    return client;
  }),
);
const ready = performance.now() - started;

let remaining = 0;
async function call(client) {
  while (remaining-- > 0) {
    const result = await client.callTool({ name: 'echo', arguments: { text: job.text } });
    if (result.content[0].text !== job.text) throw new Error(`a wrong answer: ${JSON.stringify(result)}`);
  }
}
async function calls(count, inFlight = job.in_flight) {
  remaining = count;
  await Promise.all(clients.flatMap((client) => Array.from({ length: inFlight }, () => call(client))));
}

// Many at a time, whatever is measured then: it is the same code that gets warm, and sooner.
await calls(job.warm_up, Math.max(job.in_flight, 64));
let large = 0;
if (job.large) {
  const text = 'x'.repeat(job.large);
  const sent = performance.now();
  const result = await clients[0].callTool({ name: 'echo', arguments: { text } });
  large = (performance.now() - sent) / 1000;
  if (result.content[0].text !== text) throw new Error('the long text did not come back');
}
const cpuBefore = process.cpuUsage();
const before = performance.now();
await calls(job.calls);
const seconds = (performance.now() - before) / 1000;
const cpu = process.cpuUsage(cpuBefore);
const resident = process.memoryUsage.rss();
await Promise.all(clients.map((client) => client.close()));
console.log(
  JSON.stringify({ calls: job.calls, seconds, cpu: (cpu.user + cpu.system) / 1e6, large, ready: ready / 1000, resident }),
);
