"""A host with several servers: ``python examples/host.py [FILE]``, in a checkout.

It prints the tools of all servers, calls some of them, shows progress, answers a question, and goes on when a server is killed.
"""

import asyncio
import os
import signal
import sys
from typing import Any

from twopipes import TwopipesError
from twopipes.host import Allow, Deny, GroupTool, ServerGroup, load
from twopipes.types import Elicitation, ElicitResult

CALLS: dict[str, dict[str, Any]] = {
    "ours__add": {"a": 1, "b": 2},
    "everything__trigger-long-running-operation": {"duration": 1, "steps": 4},
    "time__get_current_time": {"timezone": "UTC"},
    "ours__ask": {},
    "ours__mutate": {},  # not approved
    "broken__anything": {},
}


def answer(server: str, question: Elicitation) -> ElicitResult:
    """Answer a form. A real host shows it to the user, with the name of the server."""
    print(f"  {server} asks: {question.message}")
    return question.accept({"name": "Ada", "age": 36})


async def approve(server: str, tool: GroupTool, arguments: dict[str, Any]) -> Allow | Deny:
    """Decide about a call. A real host asks the user."""
    return Deny("the user said no") if tool.name == "ours__mutate" else Allow()


async def call(group: ServerGroup, name: str, arguments: dict[str, Any]) -> None:
    """Call a tool and print what happens. An error affects only this call."""
    try:
        result = await group.call(name, arguments, on_progress=lambda report: print(f"  {name}: {report.progress} steps"))
        print(f"{name}: {' '.join(result.text.split())}")
    except TwopipesError as error:
        print(f"{name} failed: {str(error).splitlines()[0]}")


async def main(file: str) -> None:
    """Run the host."""
    async with ServerGroup(load(file), on_elicit=answer, approve=approve) as group:
        print("Tools:", *(tool.name for tool in group.tools))
        print("Not available:", *group.problems)
        for name, arguments in CALLS.items():
            await call(group, name, arguments)
        if (client := group.servers["ours"].client) and client.pid:
            os.kill(client.pid, getattr(signal, "SIGKILL", signal.SIGTERM))  # on Windows, SIGTERM ends a process at once
        await call(group, "ours__echo", {"text": "started again"})


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "examples/servers.json"))
