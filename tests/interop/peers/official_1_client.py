"""The client of the official Python SDK 1.x, which supports only the handshake: ``official_1_client.py JOB``."""

import asyncio
import json
import sys
from importlib.metadata import version

from mcp import ClientSession, McpError, StdioServerParameters, stdio_client


async def main(job):
    progress = []

    async def note(*report):
        progress.append(report)

    command, *arguments = job["command"]
    parameters = StdioServerParameters(command=command, args=arguments)
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        opened = await session.initialize()
        await session.send_ping()
        tools = await session.list_tools()
        echoed = await session.call_tool(job["tool"], {"text": job["text"]}, progress_callback=note)
        try:
            unknown = await session.call_tool("no-such-tool", {})
        except McpError as error:
            refusal = {"code": error.error.code, "message": error.error.message}
        else:
            refusal = {"result": unknown.model_dump(mode="json")}
        return {
            "peer": f"mcp {version('mcp')}",
            "revision": opened.protocolVersion,
            "server": f"{opened.serverInfo.name} {opened.serverInfo.version}",
            "tools": [tool.name for tool in tools.tools],
            "answer": echoed.content[0].text,
            "progress": progress,
            "refusal": refusal,
        }


print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
