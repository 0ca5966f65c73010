"""Does all there is to do with a server, by the client of FastMCP: ``fastmcp_touring.py CMD...``."""

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
# Seconds for an answer: what a host would set, too.
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
        is_modern = client.protocol_version >= "2026"
        for tool in await listed(client.list_tools):
            with suppress(Exception):
                await client.call_tool(tool.name, {}, progress_handler=ignore)
        for resource in await listed(client.list_resources):
            with suppress(Exception):
                await client.read_resource(resource.uri)
        await listed(client.list_resource_templates)
        for prompt in await listed(client.list_prompts):
            with suppress(Exception):
                await client.get_prompt(prompt.name)
        with suppress(Exception):
            note = types.ResourceTemplateReference(uri="posing://notes/{name}")
            await client.complete(note, {"name": "name", "value": "a"})
        with suppress(Exception):
            # It has no words of its own for these in either era, and leaves them to the session beneath.
            if is_modern:
                async with listen(client.session, tools_list_changed=True, resource_subscriptions=["posing://note"]):
                    await client.list_tools()
            else:
                await client.set_logging_level("info")
                await client.session.subscribe_resource("posing://note")
                await client.session.unsubscribe_resource("posing://note")
                await client.ping()


asyncio.run(main(*sys.argv[1:]))
