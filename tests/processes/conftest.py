"""Real servers in real processes. All of them have exited and been reaped when a test ends."""

import asyncio
import gc
import os
import signal
import socket
import subprocess
import textwrap
from pathlib import Path

import pytest

from processes.client_stage import Stage
from processes.launching import ENVIRONMENT, NET, Child, Peer, children_of_this_process, python
from systems import LINUX, STATE_VARIABLE, WINDOWS

if WINDOWS:
    from processes.windows_pipes import PipeSocket


def pytest_collection_modifyitems(items):
    for item in items:
        if "processes" in item.path.parts and not (LINUX or WINDOWS):
            item.add_marker(pytest.mark.skip(reason="counts processes in /proc"))


def open_descriptors():
    if WINDOWS:  # those of the C library
        return {number for number in range(64) if is_open(number)}
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


@pytest.fixture(autouse=True, scope="session")
def _loop_was_used():
    """With `nox -s uvloop`: the first loop that handles a signal opens a pipe for the whole process."""

    async def handle_a_signal():
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR2, lambda: None)
        loop.remove_signal_handler(signal.SIGUSR2)

    if asyncio.new_event_loop.__module__ == "twopipes_test_loop":
        asyncio.run(handle_a_signal())


@pytest.fixture(autouse=True)
def _no_leftovers(_loop_was_used):
    before = children_of_this_process(), open_descriptors()
    yield
    # Processes of earlier tests may exit meanwhile, but there may be no new ones.
    assert children_of_this_process() <= before[0]
    if not open_descriptors() <= before[1]:
        gc.collect()  # uvloop closes those of a loop when it is collected
    assert open_descriptors() <= before[1]


@pytest.fixture
def environment(tmp_path):
    return {**ENVIRONMENT, STATE_VARIABLE: str(tmp_path / "state")}


@pytest.fixture
def write(tmp_path):
    """Write a program to the folder of the test, and return its path."""

    def write(text, name="server.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text).lstrip(), encoding="utf-8")
        return path

    return write


@pytest.fixture
def launch(tmp_path, environment, _no_leftovers):
    """Start a server: the path of a Python file, or a whole command."""
    started = []

    def launch(target, *arguments, env=(), wire="pipe", **options):
        command = target if isinstance(target, list) else python(target, *arguments)
        options.setdefault("cwd", tmp_path)
        child = Child(command, wire=wire, env={**environment, **dict(env)}, **options)
        started.append(child)
        return child

    yield launch
    for child in started:
        child.dispose()


@pytest.fixture
def connect(_no_leftovers):
    """Connect to a listening server: its address as the server prints it."""
    peers = []

    def connect(address):
        kind, _, place = address.partition(":" if address.startswith("unix:") else " ")
        if kind == "unix" and WINDOWS:
            sock = PipeSocket(place)
        elif kind == "unix":
            sock = socket.socket(socket.AF_UNIX)
            try:
                sock.connect(place)
            except OSError:
                sock.close()
                raise
        else:
            host, _, port = place.rpartition(":")
            sock = socket.create_connection((host, int(port)))
        peers.append(Peer(sock))
        return peers[-1]

    yield connect
    for peer in peers:
        peer.dispose()


@pytest.fixture
def run(tmp_path, environment, _no_leftovers):
    """Run a program to its end."""

    def run(target, *arguments, env=(), **options):
        command = target if isinstance(target, list) else python(target, *arguments)
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": tmp_path, **options}
        done = subprocess.run(command, env={**environment, **dict(env)}, timeout=NET, check=False, **options)
        if WINDOWS and isinstance(done.stderr, bytes):
            done.stderr = done.stderr.replace(b"\r\n", b"\n")  # for people, so it has the line ends of the system
        return done

    return run


@pytest.fixture
def listening(launch):
    """Start a server that listens, wait until it does, and return it with its address."""

    def listening(target, *arguments, **options):
        child = launch(target, *arguments, **options)
        return child, child.err.until(" listens on ").partition(" listens on ")[2].strip()

    listening.launch = launch
    return listening


@pytest.fixture
def stage(tmp_path, _no_leftovers):
    """Launch misbehaving servers with the real client, and check that no process remains."""
    stage = Stage(tmp_path)
    yield stage
    stage.check_that_no_process_remains()
