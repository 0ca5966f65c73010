"""A host: ``python host.py TOOL [KEY=VALUE ...] -- COMMAND...`` launch a server, call one tool, and exit.

What the server says on stderr is passed on, as it is.
"""

import asyncio
import sys

from twopipes import connect


async def main():
    cut = sys.argv.index("--")
    tool, *pairs = sys.argv[1:cut]
    arguments = dict(pair.split("=", 1) for pair in pairs)

    def pass_on(line):
        print(line.text, file=sys.stderr, flush=True)

    async with connect(sys.argv[cut + 1 :], era="legacy", on_stderr=pass_on) as client:
        await client.call_tool(tool, arguments)


asyncio.run(main())
