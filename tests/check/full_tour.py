"""A client that uses every feature of a server. As a program, ``python full_tour.py CMD...|URL``, it launches the server."""

import asyncio
import sys
from contextlib import suppress
from typing import Any

from twopipes import Timeouts, TwopipesError, connect
from twopipes.types import ClientOptions, EraCache


def arguments_for(tool: Any) -> dict[str, Any]:
    """Return the defaults of the arguments that a tool requires."""
    schema = tool.input_schema
    properties = {name: schema["properties"][name] for name in schema.get("required", ()) if name in schema.get("properties", {})}
    return {name: each["default"] for name, each in properties.items() if "default" in each}


async def tour(server: Any, **options: Any) -> None:
    """List everything, call every tool, read, prompt, listen, answer, and disconnect. Use only declared features (LC-11)."""
    options = {
        "on_elicit": lambda _question: {"name": "Anna"},
        "on_sample": lambda _question: "Hi",
        "roots": ["file:///home/anna"],
        "on_log": lambda _params: None,
        # Shorter than the limit of the timeouts in runs.py, so that the check sees that the client gives up.
        "timeouts": Timeouts(request=4, total=5),
        # Of its own: a port is used again, and what is remembered of the server that had it must not count.
        "options": ClientOptions(era_cache=EraCache()),
        **options,
    }
    async with connect(server, **options) as client:
        can = client.capabilities
        for tool in await client.list_tools():
            with suppress(TwopipesError):
                # A tool with this name may never return. A short timeout lets the check see the cancellation.
                soon = Timeouts(request=0.2, total=0.2) if tool.name == "stuck" else None
                await client.call_tool(tool.name, arguments_for(tool), on_progress=lambda _progress: None, timeouts=soon)
        for resource in await client.list_resources() if can.allows("resources") else ():
            with suppress(TwopipesError):
                await client.read_resource(resource.uri)
        if can.allows("resources"):
            await client.list_resource_templates()
        for prompt in await client.list_prompts() if can.allows("prompts") else ():
            with suppress(TwopipesError):
                await client.get_prompt(prompt.name, {each.name: "3" for each in prompt.arguments or ()})
        with suppress(TwopipesError):
            # The first revision has completion, and no capability for it.
            if can.allows("completions") or client.revision == "2024-11-05":
                await client.complete("name", "a", resource="fake://notes/{name}")
        with suppress(TwopipesError):
            if can.allows("logging"):
                await client.set_log_level("info")
        with suppress(TwopipesError):
            async with client.subscribe(tools=True, resources=["fake://note"] if can.allows("resources", "subscribe") else []):
                await client.ping()


if __name__ == "__main__":
    words = sys.argv[1:]
    asyncio.run(tour(words[0] if words[0].startswith("http") else words))
