"""Real programs for the tests: each listens on loopback, keeps its files in a folder of the test, and is ended by its pid."""

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest


def missing(reason):
    """Skip the test, or fail if the programs must be there."""
    if os.environ.get("SCALE_REQUIRED"):
        pytest.fail(reason)
    pytest.skip(reason)


def program(name):
    """Return the path of an installed program. Debian has nginx in a folder that is not on every PATH."""
    path = shutil.which(name, path=os.environ.get("PATH", "") + os.pathsep + "/usr/sbin")
    if path is None:
        missing(f"{name} is not installed; `make scale` installs it on Debian if it runs as root")
    return path


def free_port():
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Service:
    """A program that runs until the test ends it."""

    def __init__(self, command, *, ready, env=None, log):
        self.command = [str(part) for part in command]
        self._ready = ready
        self._env = {**os.environ, **(env or {})}
        self.log = Path(log)
        self.process = None

    def start(self):
        """Start the program, and wait until its output contains the text that it writes when it is ready."""
        with self.log.open("ab") as output:
            start = output.tell()
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=self._env
            )
        with self.log.open("ab", buffering=0) as output:
            for line in self.process.stdout:
                output.write(line)
                if self._ready in line.decode(errors="replace"):
                    break
            else:
                text = self.log.read_bytes()[start:].decode(errors="replace")
                pytest.fail(f"{self.command[0]} ended with {self.process.wait()} before it was ready:\n{text}")
        return self

    def send(self, number):
        self.process.send_signal(number)

    def wait(self, timeout=30):
        """Wait until the program has ended; return its exit code."""
        with self.log.open("ab") as output:
            output.write(self.process.communicate(timeout=timeout)[0] or b"")
        return self.process.returncode

    def kill(self):
        """End the program without a chance to say goodbye, and wait for it."""
        self.send(signal.SIGKILL)
        self.wait()

    def end(self):
        """End the program if it still runs."""
        if self.process is not None and self.process.poll() is None:
            self.send(signal.SIGCONT)  # a test may have stopped it
            self.kill()


class RedisServer(Service):
    """A Redis of this test, on one port for all its lives."""

    def __init__(self, folder):
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        options = ["--port", self.port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder]
        super().__init__([program("redis-server"), *options], ready="Ready to accept connections", log=folder / "redis.log")
