"""A server for the tests of ``twopipes keep``. Its environment decides how it behaves; the names are always the same.

GATE: a file that must exist before the server starts; while the server waits, there is a file of that name with `.waiting` added.
ERAS: the eras that it serves. TOOLS: names of further tools. DIARY: the file to which each start appends a line, with the pid.
FAIL: the last words of a server that cannot start.
"""

import os
import sys
import time

if os.environ["GATE"]:
    waiting = os.environ["GATE"] + ".waiting"
    open(waiting, "w").close()
    while not os.path.exists(os.environ["GATE"]):
        time.sleep(0.005)
    os.unlink(waiting)
with open(os.environ["DIARY"], "a") as diary:
    diary.write(f"{os.getpid()}\n")
if os.environ["FAIL"]:
    sys.exit(os.environ["FAIL"])
os.write(1, b"a banner that is not a message\n")
sys.stderr.write("a line on stderr\n")

from twopipes import Context, Server  # noqa: E402 - the server decides first whether it starts at all

server = Server("kept", version="1.0", instructions="Add.", eras=os.environ["ERAS"])
calls = 0


@server.tool(annotations={"readOnlyHint": True})
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
def crash_at(number: int) -> int:
    """Count the calls of this process, and exit at one of them."""
    global calls  # noqa: PLW0603 - the state of one process
    calls += 1
    if calls == number:
        sys.stderr.write("the disk is on fire\n")
        sys.stderr.flush()
        os._exit(7)
    return calls


@server.tool
def who(ctx: Context) -> dict[str, object]:
    """Return what this process knows about its client."""
    return {"name": ctx.client.info.name, "elicits": ctx.client.capabilities.elicitation is not None}


@server.tool
def grow(name: str) -> None:
    """Add a tool."""
    server.add_tool(lambda: "extra", name=name, description="One more tool.")


for name in os.environ["TOOLS"].split():
    server.add_tool(lambda: "extra", name=name, description="One more tool.")

server.run()
