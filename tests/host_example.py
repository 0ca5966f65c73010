"""Run ``examples/host.py`` with given programs for ``npx`` and ``uvx``, and check what it prints."""

import os
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parent.parent
# An environment variable that marks the servers and every process that they start.
MARK = "TWOPIPES_HOST_EXAMPLE"


def run_host(folder, *, npx, uvx, seconds=60):
    """Run the example. Both commands replace the package runners of its configuration file, which need a network."""
    mark, started = str(folder), folder / "started"
    for name, command in {"python": [sys.executable], "npx": npx, "uvx": uvx}.items():
        passed_on = ' "$@"' if name == "python" else ""
        program = folder / name
        program.write_text(
            f"#!/bin/sh\necho {name} >> {shlex.quote(str(started))}\n"
            f"export {MARK}={shlex.quote(mark)}\nexec {shlex.join(command)}{passed_on}\n"
        )
        program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    command = [sys.executable, "examples/host.py"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds, check=False)
    # Ours and the broken one, both a second time: after the kill, and by the call of a tool.
    assert sorted(started.read_text().split()) == ["npx", "python", "python", "python", "python", "uvx"]
    assert not marked(mark), "processes are left behind"
    return done


def marked(mark):
    """Return the processes whose environment has the mark."""
    found = set()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has exited, or is not ours
            if f"{MARK}={mark}".encode() in environment.read_bytes().split(b"\0"):
                found.add(int(environment.parent.name))
    return found


def check_output(done):
    """Check that the example did what it promises."""
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    lines = done.stdout.splitlines()
    tools = lines[0].split()
    assert {"ours__add", "everything__trigger-long-running-operation", "time__get_current_time"} <= set(tools)
    assert lines[1] == "Not available: broken"
    assert lines[2] == "ours__add: 3"
    progress = [line for line in lines if line.startswith("  everything__trigger-long-running-operation: ")]
    assert [line.rpartition(": ")[2] for line in progress] == ["1 steps", "2 steps", "3 steps", "4 steps"]
    assert any(line.startswith("everything__trigger-long-running-operation: Long running") for line in lines)
    assert any(line.startswith("time__get_current_time: ") for line in lines)
    assert lines[-5:-3] == ["  ours asks: Who are you?", "ours__ask: Ada is 36"]
    assert lines[-3].startswith("ours__mutate failed: ")
    assert "the user said no" in lines[-3]
    assert lines[-2].startswith("broken__anything failed: ")
    assert lines[-1] == "ours__echo: started again"
