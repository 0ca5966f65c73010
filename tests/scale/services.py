"""Real programs for the tests: each listens on loopback, keeps its files in a folder of the test, and is ended by its pid."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

FILES = Path(__file__).parents[2] / "examples" / "scale"
PAGE = FILES.parents[1] / "docs" / "howto" / "scale-out.md"
# Seconds. A net under programs that do not start or end, not an assertion.
NET = 30
STATE_KEY = "a key of the tests that is long enough"


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


def accepts(port):
    """Whether something listens on a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Service:
    """A program that runs until the test ends it. Its output goes to a file."""

    def __init__(self, name, folder, command, *, port, env=None):
        self.name = name
        self.folder = folder
        self.port = port
        self.log = folder / f"{name}.log"
        self._command = [str(part) for part in command]
        self._env = {**os.environ, **(env or {})}
        self.process = None

    def start(self):
        """Start the program, and wait until it serves."""
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=self._env, cwd=self.folder
            )
        self.until(self.is_ready)
        return self

    @property
    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def is_ready(self):
        return accepts(self.port)

    def until(self, happened):
        """Wait until something is true of the running program."""
        deadline = time.monotonic() + NET
        while not happened():
            if self.process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"{self.name} is not ready (exit code {self.process.poll()}):\n{self.log.read_text()[-5000:]}")
            time.sleep(0.02)

    def send(self, number):
        self.process.send_signal(number)

    def wait(self):
        """Wait until the program has ended; return its exit code."""
        return self.process.wait(NET)

    def kill(self):
        """End the program without a chance to clean up, and wait for it."""
        self.send(signal.SIGKILL)
        self.wait()

    def end(self):
        """End the program if it still runs."""
        if self.is_running:
            self.send(signal.SIGCONT)  # a test may have stopped it
            self.send(signal.SIGTERM)
            try:
                self.wait()
            except subprocess.TimeoutExpired:
                self.kill()
                raise


class RedisServer(Service):
    """A Redis of one test, on one port for all its lives."""

    def __init__(self, folder):
        port = free_port()
        self.url = f"redis://127.0.0.1:{port}"
        options = ["--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        super().__init__("redis", folder, [program("redis-server"), *options], port=port)


class Worker(Service):
    """One process of the server of the page, with the environment that the page gives it."""

    def __init__(self, name, folder, redis_url, *, state_key=STATE_KEY):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.mcp = f"{self.url}/mcp"
        environment = {
            "WORKER": name,
            "LISTEN": f"127.0.0.1:{port}",
            "TWOPIPES_STATE_KEY": state_key,
            "REDIS_URL": redis_url,
            "NOTES": str(folder / "notes.db"),
        }
        super().__init__(name, folder, [sys.executable, FILES / "server.py"], port=port, env=environment)

    def health(self):
        """Return the status of the health endpoint; 0 if there is no response."""
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=NET) as response:
                return response.status
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        except OSError:
            return 0

    def is_ready(self):
        return self.health() == 200


# What a distribution has in its own nginx.conf, for a process that keeps to one folder.
MAIN_CONFIG = """
daemon off;
worker_processes 2;
pid {folder}/nginx.pid;
error_log {folder}/nginx-errors.log;
{user}
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/notes.conf;
}}
"""


class Nginx(Service):
    """An nginx with the configuration of the page, on ports of the test."""

    def __init__(self, folder, workers):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._ports = {8080: port} | dict(zip((8001, 8002), (worker.port for worker in workers), strict=True))
        # Processes of nginx that root starts belong to another user, who cannot write into the folder of the test.
        user = "user root;" if hasattr(os, "getuid") and os.getuid() == 0 else ""
        (folder / "nginx.conf").write_text(MAIN_CONFIG.format(folder=folder, user=user))
        super().__init__("nginx", folder, [program("nginx"), "-p", folder, "-c", folder / "nginx.conf"], port=port)
        self.configure()

    def configure(self):
        """Write the configuration of the page."""
        text = (FILES / "nginx.conf").read_text()
        for documented in self._ports:
            assert f"127.0.0.1:{documented}" in text
        (self.folder / "notes.conf").write_text(self._with_ports(text))

    def take_out_first(self):
        """Edit the configuration with the command of the page that takes the first process out."""
        expression = re.search(r"sed -i '([^']+ down/)' /etc/nginx/conf.d/notes.conf && nginx -s reload", PAGE.read_text())[1]
        subprocess.run(["sed", "-i", self._with_ports(expression), self.folder / "notes.conf"], check=True)

    def _with_ports(self, text):
        return re.sub(r"127\.0\.0\.1:(\d+)", lambda found: f"127.0.0.1:{self._ports[int(found[1])]}", text)

    def reload(self):
        """Load the configuration again, and wait until the old processes accept nothing any more."""
        before = self._children()
        self.send(signal.SIGHUP)
        self.until(lambda: (self._children() - before) and not self._accepting(before))

    def _children(self):
        pid = self.process.pid
        return set(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())

    def _accepting(self, pids):
        """Whether one of these processes still works normally; nginx names one that only finishes its connections."""
        for pid in pids:
            try:
                title = Path(f"/proc/{pid}/cmdline").read_bytes()
            except FileNotFoundError:
                continue
            if title and b"shutting down" not in title:
                return True
        return False
