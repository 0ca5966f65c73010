"""The client of FastMCP, which keeps its child alive unless keep_alive is off: ``fastmcp_client.py JOB``."""

import asyncio
import json
import sys
from importlib.metadata import version

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import McpError


async def main(job):
    progress = []

    async def note(*report):
        progress.append(report)

    command, *arguments = job["command"]
    transport = StdioTransport(command, arguments, keep_alive=False)
    async with Client(transport, mode=job["mode"]) as client:
        tools = await client.list_tools()
        echoed = await client.call_tool("echo", {"text": job["text"]}, progress_handler=note)
        try:
            unknown = await client.call_tool_mcp("no-such-tool", {})
        except McpError as error:
            refusal = {"code": error.error.code, "message": error.error.message}
        else:
            refusal = {"result": unknown.model_dump(mode="json")}
        return {
            "peer": f"fastmcp {version('fastmcp')}",
            "revision": client.protocol_version,
            "server": client.server_info and f"{client.server_info.name} {client.server_info.version}",
            "tools": [tool.name for tool in tools],
            "answer": echoed.content[0].text,
            "progress": progress,
            "refusal": refusal,
        }


print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
