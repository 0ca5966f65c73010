"""The client of the official Python SDK 2.x: ``official_2_client.py JOB``."""

import asyncio
import json
import sys
from importlib.metadata import version

from mcp import Client, MCPError, StdioServerParameters


async def main(job):
    progress = []

    async def note(*report):
        progress.append(report)

    command, *arguments = job["command"]
    async with Client(StdioServerParameters(command=command, args=arguments), mode=job["mode"]) as client:
        tools = await client.list_tools()
        echoed = await client.call_tool(job["tool"], {"text": job["text"]}, progress_callback=note)
        try:
            unknown = await client.call_tool("no-such-tool", {})
        except MCPError as error:
            refusal = {"code": error.code, "message": error.message}
        else:
            refusal = {"result": unknown.model_dump(mode="json")}
        return {
            "peer": f"mcp {version('mcp')}",
            "revision": client.protocol_version,
            "server": client.server_info and f"{client.server_info.name} {client.server_info.version}",
            "tools": [tool.name for tool in tools.tools],
            "answer": echoed.content[0].text,
            "progress": progress,
            "refusal": refusal,
        }


print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
