"""Show which functions a request passes through, and how many calls of ours that takes.

python tools/call_path.py            print the three paths
python tools/call_path.py --write    write them into docs/explanation/architecture.md

Counted are calls of Python functions in this package: in a server from the bytes of a ``tools/call`` to those of its response, in
a client from ``call_tool()`` to its result, and in a client whose server was killed from a call to the result of the new process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import twopipes
from twopipes import RestartPolicy, connect

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
PACKAGE = str(Path(twopipes.__file__).parent) + os.sep
BEGIN, END = "<!-- call paths: tools/call_path.py --write -->\n", "<!-- end of call paths -->\n"

SERVER = """
import json, os, sys
from twopipes import Server
sys.path.insert(0, {tools!r})
from call_path import Profile

server = Server("paths")
profile = Profile()

@server.tool
async def mark() -> int:
    profile.marks.append(len(profile.calls))
    if len(profile.marks) == 4:
        with open({path!r}, "w") as file:
            json.dump(profile.calls[profile.marks[-2] : profile.marks[-1]], file)
    return os.getpid()

profile.start()
server.run()
"""


class Profile:
    """Every call of a function of the package, as ``file: function``, in order."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.marks: list[int] = []

    def start(self) -> None:
        """Record the calls of this thread from now on."""
        sys.setprofile(self._record)

    def stop(self) -> list[str]:
        """Stop, and return what was recorded."""
        sys.setprofile(None)
        return self.calls

    def _record(self, frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            self.calls.append(f"{code.co_filename.removeprefix(PACKAGE)}: {code.co_qualname}")


async def paths() -> dict[str, list[str]]:
    """The three paths by their titles."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "calls.json"
        program = Path(folder) / "server.py"
        program.write_text(SERVER.format(tools=str(ROOT / "tools"), path=str(result)), encoding="utf-8")
        async with connect(sys.executable, str(program), restart=RestartPolicy(first_delay=0)) as client:
            for _ in range(4):  # the first ones load what is loaded on demand
                pid = (await client.call_tool("mark")).structured["result"]
            in_server = json.loads(result.read_text(encoding="utf-8"))
            profile = Profile()
            profile.start()
            await client.call_tool("mark")
            in_client = profile.stop()
            await client.list_tools()
            os.kill(pid, signal.SIGKILL)
            profile = Profile()
            profile.start()
            await client.list_tools()  # safe to send again to the new process
            restart = profile.stop()
    return {"A tools/call in a server": in_server, "call_tool() in a client": in_client, "A restart in a client": restart}


def text_of(path: Sequence[str]) -> str:
    """The functions of a path in order, each once for consecutive calls."""
    lines = [call for index, call in enumerate(path) if index == 0 or path[index - 1] != call]
    return "\n".join(lines)


def section() -> str:
    """The section of the page."""
    found = asyncio.run(paths())
    rows = [f"| {title} | {len(path)} | {len({call.partition(':')[0] for call in path})} |" for title, path in found.items()]
    table = "\n".join(["| path | calls of our functions | files |", "|---|---|---|", *rows])
    first = next(iter(found.values()))
    return f"{BEGIN}\n{table}\n\n```text\n{text_of(first)}\n```\n\n{END}"


def main() -> None:
    """Print the section, or write it into the page."""
    parser = argparse.ArgumentParser(description="Show which functions a request passes through.")
    parser.add_argument("--write", action="store_true", help="write the paths into docs/explanation/architecture.md")
    options = parser.parse_args()
    made = section()
    if not options.write:
        print(made)
        return
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{made}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
