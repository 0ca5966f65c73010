"""Our own server and client: they keep every rule that can be tried, in every revision, over stdio, a Unix socket, TCP and HTTP."""

import os
import sys
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from check.full_tour import tour
from check.healthy import EXAMPLE, new_server
from check.http_reference import with_mirrored_arguments
from check.runs import BRISK, of_client, of_server, patiently, run
from check.time_scale import scaled
from http_server import serve_asgi
from twopipes._channels.sockets import listen_tcp, listen_unix
from twopipes._process.command import ServerCommand
from twopipes._protocol.revisions import ALL
from twopipes._tools.check.client_run import CommandDriver, InProcessDriver
from twopipes._tools.check.http.drivers import HttpInProcessDriver
from twopipes._tools.check.http.target import HttpTarget
from twopipes._tools.check.messages import ProbeTimeouts
from twopipes._tools.check.scenario import all_scenarios
from twopipes._tools.check.server_source import AddressTarget, CommandTarget

pytestmark = pytest.mark.mutants

# Where all are spoken, most is tried in the newest revision of each era; so the others are tried alone as well.
OLDER = ALL[:-2]
ever = pytest.mark.parametrize("revisions", [ALL, *((each,) for each in OLDER)], ids=["all", *OLDER])

FULL_TOUR = Path(__file__).parent / "full_tour.py"
# Seconds. Processes on a busy machine; nothing is waited for that long that comes.
WAITS = ProbeTimeouts(start=30, response=20, grace=0.05, exit=10, step=5)


def breaches(outcome):
    return [(each.rule.id, each.revision, each.probe, each.why, each.received) for each in outcome.failures]


@ever
def test_our_server_over_stdio(revisions):
    state = {name: os.environ[name] for name in ("XDG_STATE_HOME",) if name in os.environ}
    target = CommandTarget(ServerCommand([sys.executable, str(EXAMPLE)], env=state), timeouts=WAITS)
    outcome = run(of_server(target, revisions=revisions))
    assert outcome.revisions == list(revisions)
    assert breaches(outcome) == []
    # A server that takes a second to start is checked within a minute: that is a matter of how often it is started.
    assert len(target.conversations) <= 68


@pytest.mark.skipif(sys.platform == "win32", reason="no Unix sockets in asyncio there")
@ever
def test_our_server_over_a_unix_socket(tmp_path, revisions):
    path = tmp_path / "s"

    async def scene():
        server = new_server()
        listener = await listen_unix(path, lambda channel: server._serve_channel(channel, None))
        try:
            return await of_server(AddressTarget(f"unix:{path}", timeouts=WAITS), revisions=revisions)
        finally:
            await listener.close()

    outcome = run(scene())
    assert outcome.revisions == list(revisions)
    assert breaches(outcome) == []


@ever
def test_our_server_over_tcp(revisions):
    async def scene():
        server = new_server()
        listener = await listen_tcp(0, lambda channel: server._serve_channel(channel, None))
        try:
            return await of_server(AddressTarget(f"tcp://127.0.0.1:{listener.port}", timeouts=WAITS), revisions=revisions)
        finally:
            await listener.close()

    outcome = run(scene())
    assert outcome.revisions == list(revisions)
    assert breaches(outcome) == []


@ever
def test_our_server_over_http(revisions):
    with serve_asgi(with_mirrored_arguments(new_server()).asgi()) as port:
        target = HttpTarget(f"http://127.0.0.1:{port}/mcp", timeouts=WAITS)
        outcome = run(of_server(target, revisions=revisions))
    assert outcome.revisions == list(revisions)
    assert breaches(outcome) == []


@pytest.mark.skipif(sys.platform == "win32", reason="no Unix sockets in asyncio there")
@ever
def test_our_client_over_a_unix_socket(tmp_path, revisions):
    numbers = count()

    async def make_the_tour(launcher):
        path = tmp_path / f"c{next(numbers)}"  # several are under way at a time
        listener = await listen_unix(path, lambda channel: launcher.serve(channel=channel))
        try:
            await tour(f"unix:{path}", timeouts=scaled(BRISK))
        finally:
            await listener.close()

    outcome = patiently(lambda: of_client(InProcessDriver(make_the_tour), revisions=revisions))
    assert outcome.revisions == list(revisions)
    assert breaches(outcome) == []


@ever
def test_our_client_over_tcp(revisions):
    async def make_the_tour(launcher):
        listener = await listen_tcp(0, lambda channel: launcher.serve(channel=channel))
        try:
            await tour(f"tcp://127.0.0.1:{listener.port}", timeouts=scaled(BRISK))
        finally:
            await listener.close()

    outcome = patiently(lambda: of_client(InProcessDriver(make_the_tour), revisions=revisions))
    assert outcome.revisions == list(revisions)
    assert breaches(outcome) == []


@ever
def test_our_client_over_http(revisions):
    outcome = patiently(lambda: of_client(HttpInProcessDriver(partial(tour, timeouts=scaled(BRISK))), revisions=revisions))
    assert outcome.revisions == list(revisions)
    assert breaches(outcome) == []


def test_our_client_as_a_program():
    outcome = patiently(lambda: of_client(CommandDriver([sys.executable, str(FULL_TOUR), "{server}"])))
    assert outcome.revisions == list(ALL)
    assert breaches(outcome) == []


@pytest.mark.parametrize("revision", OLDER)
def test_our_client_as_a_program_in_an_older_revision(revision):
    """What has to do with processes: each run takes two. The rest is tried over sockets."""
    wanted = {rule for each in all_scenarios() if each.needs_process for rule in each.rules}
    driver = CommandDriver([sys.executable, str(FULL_TOUR), "{server}"])
    outcome = patiently(lambda: of_client(driver, revisions=[revision], wanted=wanted))
    assert outcome.revisions == [revision]
    assert breaches(outcome) == []
