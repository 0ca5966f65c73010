"""The healthy twins: a server with every fixture that the probes need, and a client that makes the tour. Both keep all rules."""

import asyncio
import importlib.util
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from check.asking_tools import add_asking_tools
from twopipes import Server
from twopipes._channels.base import Channel
from twopipes._channels.memory import memory_pair
from twopipes._tools.check.messages import ProbeTimeouts
from twopipes._tools.check.probe import Permissions

EXAMPLE = Path(__file__).parents[2] / "examples" / "everything.py"

# Seconds. In memory an answer comes within a few turns of the loop; what is waited for in vain costs this much each time.
WAITS = ProbeTimeouts(start=5, response=2, long=10, grace=0.02, exit=2, step=2)
IMPATIENT = ProbeTimeouts(start=1, response=0.3, long=2, grace=0.02, exit=0.5, step=0.5)

# The fixtures of the example that change nothing but itself.
PERMISSIONS = Permissions(
    tools=frozenset({"fail", "boom", "log", "whoami", "ask", "ask_url", "roots_tool", "mutate", "touch", "blocks"})
    | {"sample", "mutate_resources", "mutate_prompts", "ask_twice", "ask_at_once", "agent", "redeem"},
    calls={
        "echo": {"text": "hello"},
        "slow": {"steps": 3, "seconds": 0.01},
        "structured": {"city": "Bern"},
        "numbers": {"count": 3},
    },
)


def new_server() -> Server:
    """A server of its own for each test: the example has state."""
    spec = importlib.util.spec_from_file_location("everything_under_check", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys  # noqa: PLC0415 - for the moment of the import

    sys.modules[spec.name] = module  # its types are looked up by name
    spec.loader.exec_module(module)
    server: Server = module.server
    add_what_changes_lists(server)
    add_asking_tools(server)
    return server


def add_what_changes_lists(server: Server) -> None:
    """What `mutate` of the example is for tools, for resources and prompts."""

    async def mutate_resources() -> str:
        if "extra://here" in server.resources:
            server.remove_resource("extra://here")
        else:
            server.add_resource("extra://here", lambda: "extra", name="extra")
        return "done"

    async def mutate_prompts() -> str:
        if "extra" in server.prompts:
            server.remove_prompt("extra")
        else:
            server.add_prompt(lambda: "extra", name="extra")
        return "done"

    server.add_tool(mutate_resources)
    server.add_tool(mutate_prompts)


Wrap = Callable[[Channel], Channel]


def served(server: Server, wrap: Wrap | None = None) -> Callable[[], Any]:
    """What a ``ChannelSubject`` connects with: each time a fresh connection to the server, changed on the way by ``wrap``."""

    @asynccontextmanager
    async def connect() -> AsyncIterator[Channel]:
        ours, theirs = memory_pair()
        serving = asyncio.create_task(server._serve_channel(theirs, None))
        try:
            yield ours if wrap is None else wrap(ours)
        finally:
            await ours.close()
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving

    return connect
