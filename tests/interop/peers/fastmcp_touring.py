"""Use every feature of a server with the client of FastMCP: ``fastmcp_touring.py CMD...``."""

import asyncio
import sys
import warnings
from contextlib import suppress

import mcp_types as types
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from mcp.client.subscriptions import listen

warnings.simplefilter("ignore")
# Seconds to wait for a response: a value that a host would choose.
PATIENCE = 5


async def elicit(message, form, params, context):
    if isinstance(params, types.ElicitRequestURLParams):
        return ElicitResult(action="decline")
    return ElicitResult(action="accept", content={"name": "Anna"})


async def sample(messages, params, context):
    return "Hi"


async def ignore(*report):
    pass


async def listed(list_all):
    with suppress(Exception):
        return await list_all()
    return []


async def main(command, *arguments):
    async with Client(
        StdioTransport(command, list(arguments), keep_alive=False),
        mode="auto",
        timeout=PATIENCE,
        elicitation_handler=elicit,
        sampling_handler=sample,
        roots=["file:///home/anna"],
        log_handler=ignore,
    ) as client:
        is_modern, can = client.protocol_version >= "2026", client.server_capabilities
        for tool in await listed(client.list_tools):
            with suppress(Exception):
                await client.call_tool(tool.name, {}, progress_handler=ignore)
        for resource in await listed(client.list_resources) if can.resources else ():
            with suppress(Exception):
                await client.read_resource(resource.uri)
        if can.resources:
            await listed(client.list_resource_templates)
        for prompt in await listed(client.list_prompts) if can.prompts else ():
            with suppress(Exception):
                await client.get_prompt(prompt.name, {each.name: "3" for each in prompt.arguments or ()})
        with suppress(Exception):
            note = types.ResourceTemplateReference(uri="fake://notes/{name}")
            # The first revision has completion, but no capability for it.
            if can.completions or client.protocol_version == "2024-11-05":
                await client.complete(note, {"name": "name", "value": "a"})
        with suppress(Exception):
            # It has no methods for these in either era; use the session below it.
            if is_modern:
                notes = ["fake://note"] if can.resources and can.resources.subscribe else None
                async with listen(client.session, tools_list_changed=True, resource_subscriptions=notes):
                    await client.list_tools()
            else:
                if can.logging:
                    await client.set_logging_level("info")
                if can.resources and can.resources.subscribe:
                    await client.session.subscribe_resource("fake://note")
                    await client.session.unsubscribe_resource("fake://note")
                await client.ping()


asyncio.run(main(*sys.argv[1:]))
