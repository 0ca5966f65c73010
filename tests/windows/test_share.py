"""twopipes keep --share on Windows: two hosts share one server through a daemon that listens on a named pipe."""

import json
import os
import subprocess
import sys

import pytest

NET = 60
SERVER = """
    import os
    from twopipes import Server

    server = Server("shared", version="1")

    @server.tool()
    def pid() -> int:
        return os.getpid()

    if __name__ == "__main__":
        server.run()
"""
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Host:
    """A host with one relay."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def call(self, tool):
        params = {"name": tool, "arguments": {}, "_meta": META}
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, self.process.stderr.read().decode()
        message = json.loads(answer)
        assert "result" in message, message
        return message["result"]["structuredContent"]["result"]

    def leave(self):
        _, errors = self.process.communicate(timeout=NET)
        assert (self.process.returncode, errors) == (0, b"")


@pytest.fixture
def environment(tmp_path):
    return {**os.environ, "LOCALAPPDATA": str(tmp_path / "state")}


def twopipes(environment, *words):
    command = [sys.executable, "-m", "twopipes", *words]
    return subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=NET, check=False)


def test_two_hosts_share_a_server(write, environment):
    command = [sys.executable, "-m", "twopipes", "keep", "--share", "--", sys.executable, str(write(SERVER))]
    one, other = Host(command, environment), Host(command, environment)
    try:
        pid = one.call("pid")
        assert other.call("pid") == pid
        status = json.loads(twopipes(environment, "keep", "status", "--format", "json").stdout)
        (daemon,) = status["daemons"]
        (server,) = daemon["servers"]
        assert (server["pid"], len(server["hosts"])) == (pid, 2)
        assert daemon["memory"] > 1_000_000
        one.leave()
        assert other.call("pid") == pid
        other.leave()
    finally:
        stopped = twopipes(environment, "keep", "stop")
        for host in (one, other):
            host.process.kill()
            host.process.communicate()
    assert stopped.returncode == 0
    assert b"stopped the daemon" in stopped.stdout
    assert b"No server runs" in twopipes(environment, "keep", "status").stdout


def test_keep_without_share_is_listed(write, environment):
    command = [sys.executable, "-m", "twopipes", "keep", "--", sys.executable, str(write(SERVER))]
    host = Host(command, environment)
    try:
        pid = host.call("pid")
        (process,) = json.loads(twopipes(environment, "keep", "status", "--format", "json").stdout)["processes"]
        assert process["servers"][0]["pid"] == pid
        host.leave()
    finally:
        host.process.kill()
        host.process.communicate()
    assert b"No server runs" in twopipes(environment, "keep", "status").stdout


def test_nothing_runs(environment):
    done = twopipes(environment, "keep", "status")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"No server runs" in done.stdout
