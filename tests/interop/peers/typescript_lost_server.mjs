// What the official TypeScript client reports when its server dies during a call: `node typescript_lost_server.mjs CMD...`.
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: 'typescript-lost-server', version: '1.0' }, { versionNegotiation: { mode: 'auto' } });
client.onerror = () => {};
const outcome = async (name) => {
  try {
    return (await client.callTool({ name, arguments: {} }, { timeout: 10000 })).content[0].text;
  } catch (error) {
    return String(error);
  }
};
await client.connect(new StdioClientTransport({ command, args, stderr: 'ignore' }));
console.log(JSON.stringify({ lost: await outcome('die'), next: await outcome('live') }));
await client.close().catch(() => {});
process.exit(0);
