"""Sessions of official clients with ``examples/everything.py``, with and without ``twopipes tap``."""

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from interop.harness import EVERYTHING, Launch, Visit, run_client, visit_of, witnessed
from interop.test_everything import inspector, official_2, typescript
from twopipes._protocol.revisions import LATEST_MODERN
from twopipes.trace import Event, Line, read

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(sys.platform == "win32", reason="the witness reports through a FIFO"),
]

STEPS = [[step, 3, f"step {step}"] for step in (1, 2, 3)]


def tapped(server: Sequence[str], folder: Path) -> list[str]:
    # A client may launch a server more than once. Each launch gets its own file: earlier ones are kept with a number.
    command = [sys.executable, "-m", "twopipes", "tap", "-q", "-o", str(folder / "trace.jsonl"), "--", *server]
    # In a file, because the Inspector would parse some of these options itself.
    script = folder / "tapped.sh"
    script.write_text(f"exec {shlex.join(command)}\n")
    return ["sh", str(script)]


def recorded(folder: Path) -> list[list[Line | Event]]:
    """Return the recording of each launch, and check that none is damaged."""
    traces = [list(read(path)) for path in folder.glob("trace*.jsonl")]
    for trace in traces:
        assert all(isinstance(entry, Line | Event) for entry in trace)
        assert [entry.name for entry in trace if isinstance(entry, Event) and entry.name in {"lost", "exit"}] == ["exit"]
    return traces  # type: ignore[return-value]


def settled(findings: dict[str, Any]) -> dict[str, Any]:
    """Return the findings of a client, without those that depend on a race in the TypeScript client.

    It handles a notification later than a response that came with it in one read, and then complains that the token is unknown.
    """
    late = []
    for complaint in findings.get("complaints", []):
        params = json.loads(complaint.partition("unknown token: ")[2])["params"]
        if params["total"] == len(STEPS):
            late.append([params["progress"], params["total"], params["message"]])
    assert findings["progress"] + late == STEPS
    return {name: found for name, found in findings.items() if name not in {"complaints", "progress"}}


def ended(launch: Launch) -> Launch:
    """Return how a server ended, where that is certain: one that gets SIGTERM during its start may not have its handler yet."""
    return launch._replace(exit_code=0) if launch == Launch(-signal.SIGTERM, ("SIGTERM",)) else launch


@pytest.mark.parametrize(
    ("client", "mode"),
    [
        pytest.param(official_2, "auto", id="official-2-auto"),
        pytest.param(official_2, "legacy", id="official-2-legacy"),
        pytest.param(typescript, None, id="typescript-default"),
        pytest.param(typescript, "auto", id="typescript-auto"),
        pytest.param(typescript, {"pin": LATEST_MODERN}, id="typescript-pinned"),
    ],
)
def test_a_session_through_a_tap_has_the_same_results(client, mode, tmp_path):
    visits: list[Visit] = []
    for name in ("without", "with"):
        folder = tmp_path / name
        folder.mkdir()
        server = tapped(EVERYTHING, folder) if name == "with" else EVERYTHING
        visits.append(visit_of(client(), mode=mode, folder=folder, server=server))
    without, with_tap = visits
    assert settled(with_tap.findings) == settled(without.findings)
    # How each server ended: its exit code, and the signals that it received.
    assert list(map(ended, with_tap.launches)) == list(map(ended, without.launches))
    traces = recorded(tmp_path / "with")
    assert len(traces) == len(with_tap.launches)
    for line in (entry for trace in traces for entry in trace if isinstance(entry, Line) and entry.kind != "!"):
        assert json.loads(line.data)["jsonrpc"] == "2.0"


@pytest.mark.parametrize("era", [(), ("--protocol-era", "modern")], ids=["default", "modern"])
@pytest.mark.parametrize(
    "request_",
    [
        ["tools/list"],
        ["tools/call", "--tool-name", "echo", "--tool-arg", "text=h\u00e9llo"],
        ["resources/read", "--uri", "note://second"],
        ["tools/call", "--tool-name", "boom"],
    ],
    ids=["list", "call", "read", "failure"],
)
def test_the_inspector_sees_the_same_through_a_tap(request_, era, tmp_path):
    seen: list[Any] = []
    for name in ("without", "with"):
        folder = tmp_path / name
        folder.mkdir()

        def run(command: list[str], folder: Path = folder) -> subprocess.CompletedProcess[bytes]:
            return run_client(inspector(command, era, "--method", *request_), folder)

        done, launches = witnessed(tapped(EVERYTHING, folder) if name == "with" else EVERYTHING, run, folder=folder)
        seen.append((done.returncode, done.stdout, (folder / "stderr").read_bytes(), launches))
    assert seen[1] == seen[0]
    assert seen[0][1] or seen[0][2]
    assert len(recorded(tmp_path / "with")) == 1
