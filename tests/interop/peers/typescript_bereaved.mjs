// What the official TypeScript client says when its server dies in a call: `node typescript_bereaved.mjs CMD...`.
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: 'typescript-bereaved', version: '1.0' }, { versionNegotiation: { mode: 'auto' } });
client.onerror = () => {};
const told = async (name) => {
  try {
    return (await client.callTool({ name, arguments: {} }, { timeout: 10000 })).content[0].text;
  } catch (error) {
    return String(error);
  }
};
await client.connect(new StdioClientTransport({ command, args, stderr: 'ignore' }));
console.log(JSON.stringify({ lost: await told('die'), next: await told('live') }));
await client.close().catch(() => {});
process.exit(0);
