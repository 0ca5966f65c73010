"""The client that the official conformance suite judges: ``client.py URL``.

The suite names the scenario in ``MCP_CONFORMANCE_SCENARIO``, its calls in ``MCP_CONFORMANCE_CONTEXT``, and the revision in
``MCP_CONFORMANCE_PROTOCOL_VERSION``. The client finds the era itself.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from twopipes import Client, connect

SCENARIO = os.environ["MCP_CONFORMANCE_SCENARIO"]
CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))


async def call_first_tool(client: Client) -> None:
    tools = await client.list_tools()
    if tools:
        await client.call_tool(tools[0].name, {"a": 2, "b": 3})


async def call_every_tool(client: Client) -> None:
    for tool in await client.list_tools():
        await client.call_tool(tool.name, {})


async def make_the_calls_of_the_context(client: Client) -> None:
    await client.list_tools()
    for call in CONTEXT["toolCalls"]:
        await client.call_tool(call["name"], call["arguments"])


async def use_every_method(client: Client) -> None:
    await call_every_tool(client)
    for resource in await client.list_resources():
        await client.read_resource(resource.uri)
    for prompt in await client.list_prompts():
        await client.get_prompt(prompt.name, {})


async def list_tools(client: Client) -> None:
    await client.list_tools()


async def send_a_schema_back(client: Client) -> None:
    tools = {tool.name: tool for tool in await client.list_tools()}
    await client.call_tool("json_schema_echo", {"schema": tools["json_schema_2020_12_tool"].input_schema})


SCENARIOS: dict[str, Callable[[Client], Awaitable[None]]] = {
    "initialize": list_tools,
    "tools_call": call_first_tool,
    "request-metadata": list_tools,
    "elicitation-sep1034-client-defaults": call_every_tool,
    "sse-retry": call_every_tool,
    "sep-2322-client-request-state": call_every_tool,
    "http-standard-headers": use_every_method,
    "http-custom-headers": make_the_calls_of_the_context,
    "http-invalid-tool-headers": call_every_tool,
    "json-schema-ref-no-deref": list_tools,
    "json-schema-2020-12-preservation": send_a_schema_back,
}


async def main(url: str) -> None:
    async with connect(url, on_elicit=lambda form: form.accept(), on_sample=lambda _: "a sample", roots=["file:///tmp"]) as client:
        # Scenarios about OAuth need a client that signs in; this one only tries.
        await SCENARIOS.get(SCENARIO, call_first_tool)(client)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
