"""Run the examples as a reader would."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from host_example import check_output, run_host
from systems import WINDOWS

EXAMPLES = Path(__file__).parent.parent / "examples"
NOT_FOUND = "WinError 2" if WINDOWS else "No such file"


def run(*arguments, **options):
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)


def test_the_demo_shows_both_eras():
    shown = run(EXAMPLES / "two_eras.py")
    assert shown.returncode == 0, shown.stderr
    assert "legacy, revision 2025-11-25" in shown.stdout
    assert "modern, revision 2026-07-28" in shown.stdout
    assert shown.stdout.count("exit code 0") == 2
    for line in shown.stdout.splitlines():
        if line.startswith(("  client >", "  server <")):
            assert json.loads(line[10:])["jsonrpc"] == "2.0"


@pytest.mark.parametrize(("command", "message"), [(["/no/such/server"], NOT_FOUND), ([sys.executable, "-c", ""], "Error: ")])
def test_the_demo_reports_why_a_server_cannot_be_reached(command, message):
    shown = run(EXAMPLES / "two_eras.py", *command)
    assert shown.returncode == 1
    assert message in shown.stderr
    assert "Traceback" not in shown.stderr


def test_the_example_server_responds_to_every_request_before_the_end_of_input():
    """SD-07: requests that arrive before the end of input get a response."""
    requests = '{"jsonrpc":"2.0","id":1,"method":"ping"}\n{"jsonrpc":"2.0","id":"last","method":"ping"}'
    served = run(EXAMPLES / "echo_server.py", input=requests)
    assert served.returncode == 0
    assert [json.loads(line)["id"] for line in served.stdout.splitlines()] == [1, "last"]


# The tools of two published servers that the example calls. tests/interop/test_host_example.py runs it with the real ones.
STANDINS = """
import asyncio
import sys

from twopipes import Context, Server

server = Server(sys.argv[1])

if sys.argv[1] == "everything":

    @server.tool(name="trigger-long-running-operation")
    async def long(duration: float, steps: int, ctx: Context) -> str:
        for step in range(steps):
            await ctx.progress(step + 1, steps)
        return f"Long running operation completed. Duration: {duration} seconds, Steps: {steps}."

else:

    @server.tool
    def get_current_time(timezone: str) -> dict[str, str]:
        return {"timezone": timezone}

server.run()
"""


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="it looks for processes in /proc")
def test_the_host_uses_four_servers_and_leaves_none_behind(tmp_path):
    standins = tmp_path / "standins.py"
    standins.write_text(STANDINS)
    done = run_host(tmp_path, npx=[sys.executable, str(standins), "everything"], uvx=[sys.executable, str(standins), "time"])
    check_output(done)


def test_the_host_is_a_short_program():
    assert len((EXAMPLES / "host.py").read_text(encoding="utf-8").splitlines()) < 60
