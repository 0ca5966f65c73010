"""The daemon on a real socket, with servers of this process behind it: which hosts share one, and when each ends."""

import asyncio
import json
import os
import tempfile
from contextlib import asynccontextmanager, suppress

import pytest

from twopipes import Server
from twopipes._channels.sockets import connect_unix
from twopipes._gateway.daemon import control_server
from twopipes._gateway.daemon import daemon as daemon_module
from twopipes._gateway.daemon import service as service_module
from twopipes._gateway.daemon.daemon import Daemon
from twopipes._process.stderr import StderrLine, StderrTail
from twopipes._server.shutdown import LastResort
from twopipes.errors import ChannelBroken

# Seconds. A net under tests that hang, not an assertion.
NET = 30
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


class Back:
    """A server behind the gateway whose first start the test decides."""

    def __init__(self, era, name):
        self.era = era
        self.name = name
        self.decided = []
        self.is_closed = asyncio.Event()
        self.stops = 0

    async def stop(self):
        self.stops += 1

    def on_decided(self, call):
        self.decided.append(call)

    def start(self, era):
        self.era = era
        for call in self.decided:
            call()

    def describe(self):
        return {"name": self.name, "pid": os.getpid(), "started": 1.0, "calls": 2, "restarts": 3}


class Stage:
    """A running daemon, and the servers that it has opened."""

    def __init__(self, path, era):
        self.path = path
        self.era = era
        self.backs = []
        self.task = None

    def open_kept(self, request, on_stderr):
        if request.argv == ["missing"]:
            raise OSError("no such program")
        back = Back(self.era, request.argv[0])

        @asynccontextmanager
        async def lifespan(_):
            on_stderr(StderrLine(0.0, f"{back.name} starts"))
            yield
            back.is_closed.set()

        self.backs.append(back)
        return Server(back.name, lifespan=lifespan), back, None

    async def connect(self, *argv, **options):
        channel = await connect_unix(self.path)
        request = {
            "request": "serve",
            "argv": argv or ["a"],
            "cwd": "/",
            "environment": {},
            "options": options,
            "pid": 1,
            "host": 2,
        }
        peer = Peer(channel)
        peer.reply = await peer.ask(request)
        return peer

    async def command(self, **request):
        async with await connect_unix(self.path) as channel:
            return await Peer(channel).ask(request)


class Peer:
    """One connection to the daemon."""

    def __init__(self, channel):
        self.channel = channel
        self.rest = b""

    async def ask(self, message):
        self.channel.write(json.dumps(message).encode() + b"\n")
        return await self.receive()

    async def receive(self):
        while b"\n" not in self.rest:
            chunk = await self.channel.read()
            if not chunk:
                return None
            self.rest += chunk
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line)

    async def leave(self):
        """End the session as a relay does, and wait until the daemon has ended it, too."""
        with suppress(ChannelBroken):  # the daemon was first
            await self.channel.close_write()
        while await self.receive() is not None:
            pass
        await self.channel.close()


def play(scene, *, era=None):
    """Run a scene with a daemon. It must end by itself, or by the scene."""

    async def run():
        with tempfile.TemporaryDirectory() as folder:
            stage = Stage(os.path.join(folder, "d.sock"), era)
            ready = asyncio.Event()
            last_resort = LastResort(meanwhile=lambda: None)
            daemon = Daemon(stage.path, stage.open_kept, StderrTail())
            stage.task = asyncio.create_task(daemon.run(last_resort, ready.set))
            async with asyncio.timeout(NET):
                await ready.wait()
                await scene(stage)
                if not stage.task.done():
                    with suppress(ChannelBroken):  # it may be about to end
                        await stage.command(request="stop")
                await stage.task
            assert os.listdir(folder) == []
            assert all(back.is_closed.is_set() for back in stage.backs)

    asyncio.run(run())


def test_hosts_share_a_modern_server():
    async def scene(stage):
        first = await stage.connect()
        second = await stage.connect()
        assert first.reply == second.reply == {"pid": os.getpid(), "server": first.reply["server"]}
        assert (await first.ask(PING))["result"] == (await second.ask(PING))["result"] == {}
        assert len(stage.backs) == 1
        await first.leave()
        assert (await second.ask(PING))["result"] == {}
        await second.leave()

    play(scene, era="modern")


def test_hosts_do_not_share_a_legacy_server():
    async def scene(stage):
        first = await stage.connect()
        second = await stage.connect()
        assert len(stage.backs) == 2
        assert first.reply["server"] != second.reply["server"]
        await first.leave()
        await stage.backs[0].is_closed.wait()  # it ends with its only host
        assert (await second.ask(PING))["result"] == {}
        await second.leave()

    play(scene, era="legacy")


def test_hosts_share_a_legacy_server_if_the_user_wants_it():
    async def scene(stage):
        first = await stage.connect(share_all=True)
        second = await stage.connect(share_all=True)
        assert len(stage.backs) == 1
        await first.leave()
        await second.leave()
        assert not stage.backs[0].is_closed.is_set()

    play(scene, era="legacy")


@pytest.mark.parametrize(("era", "servers"), [("modern", 1), ("legacy", 2)])
def test_a_second_host_waits_for_the_first_start(era, servers):
    async def scene(stage):
        first = await stage.connect()
        waiting = asyncio.create_task(stage.connect())
        assert (await first.ask(PING))["result"] == {}
        assert not waiting.done()
        stage.backs[0].start(era)
        second = await waiting
        assert len(stage.backs) == servers
        await first.leave()
        await second.leave()

    play(scene)


def test_a_second_host_does_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr(service_module, "DECIDE_WITHIN", 0.01)

    async def scene(stage):
        first = await stage.connect()
        second = await stage.connect()
        assert len(stage.backs) == 2
        await first.leave()
        await second.leave()

    play(scene)


def test_a_host_that_waits_gets_its_own_server_when_the_first_host_leaves():
    async def scene(stage):
        first = await stage.connect()
        waiting = asyncio.create_task(stage.connect())
        await first.ask(PING)
        await first.leave()
        second = await waiting
        assert len(stage.backs) == 2
        await second.leave()

    play(scene)


def test_the_daemon_ends_when_its_last_server_was_idle():
    async def scene(stage):
        first = await stage.connect(idle=0.01)
        await first.leave()
        await stage.task

    play(scene, era="modern")


def test_a_server_that_is_used_again_does_not_end():
    async def scene(stage):
        first = await stage.connect("a")
        await first.leave()
        second = await stage.connect("a")
        assert len(stage.backs) == 1
        assert (await second.ask(PING))["result"] == {}
        await second.leave()

    play(scene, era="modern")


def test_a_daemon_that_no_relay_uses_ends(monkeypatch):
    monkeypatch.setattr(daemon_module, "FIRST_REQUEST_WITHIN", 0.01)

    async def scene(stage):
        await stage.task

    play(scene)


def test_a_new_daemon_outlives_a_connection_without_a_request(monkeypatch):
    monkeypatch.setattr(daemon_module, "FIRST_REQUEST_WITHIN", NET)

    async def scene(stage):
        await Peer(await connect_unix(stage.path)).leave()  # as a second daemon does to find out whether the socket is in use
        host = await stage.connect()
        assert (await host.ask(PING))["result"] == {}
        await host.leave()

    play(scene)


def test_a_server_that_cannot_be_opened_is_refused_and_the_next_is_served():
    async def scene(stage):
        first = await stage.connect()
        refused = await stage.connect("missing")
        assert refused.reply == {"error": "no such program"}
        assert (await first.ask(PING))["result"] == {}
        await refused.leave()
        await first.leave()

    play(scene)


def test_the_first_message_may_come_with_the_request():
    async def scene(stage):
        async with await connect_unix(stage.path) as channel:
            peer = Peer(channel)
            request = {"request": "serve", "argv": ["a"], "cwd": "/", "environment": {}, "options": {}, "pid": 1, "host": 2}
            first, second = json.dumps(PING), json.dumps(PING | {"id": 2})
            channel.write(f"{json.dumps(request)}\n{first}\n{second[:9]}".encode())
            assert (await peer.receive())["pid"] == os.getpid()
            assert (await peer.receive())["id"] == 1
            channel.write(f"{second[9:]}\n".encode())
            assert (await peer.receive())["id"] == 2

    play(scene)


@pytest.mark.parametrize("line", [b"GET / HTTP/1.1\r\n\r\n", b'{"request":"dance"}\n'])
def test_an_invalid_request_gets_an_error_and_others_are_served(line):
    async def scene(stage):
        first = await stage.connect()
        async with await connect_unix(stage.path) as channel:
            channel.write(line)
            assert (await Peer(channel).receive())["error"].startswith("invalid request")
        assert (await first.ask(PING))["result"] == {}
        await first.leave()

    play(scene)


def test_a_connection_that_sends_no_request_is_closed(monkeypatch):
    monkeypatch.setattr(control_server, "REQUEST_WITHIN", 0.01)

    async def scene(stage):
        async with await connect_unix(stage.path) as channel:
            assert await channel.read() == b""

    play(scene)


def test_status_names_servers_and_hosts():
    async def scene(stage):
        first = await stage.connect("a", "--token=x")
        second = await stage.connect("b")
        found = await stage.command(request="status")
        assert found["pid"] == os.getpid()
        one, other = sorted(found["servers"], key=lambda server: server["name"])
        assert (one["command"], one["calls"], one["restarts"], one["shared"]) == (["a", "--token=x"], 2, 3, True)
        assert [(host["pid"], host["host"]) for host in one["hosts"]] == [(1, 2)]
        assert one["memory"] is None or one["memory"] > 1_000_000
        assert other["id"] != one["id"]
        await first.leave()
        assert [len(server["hosts"]) for server in (await stage.command(request="status"))["servers"]].count(0) == 1
        await second.leave()

    play(scene, era="modern")


def test_logs_are_those_of_the_chosen_server():
    async def scene(stage):
        first, second = await stage.connect("alpha"), await stage.connect("beta")
        everything = await stage.command(request="logs")
        assert sorted(server["lines"] for server in everything["servers"]) == [["alpha starts"], ["beta starts"]]
        chosen = await stage.command(request="logs", server="beta")
        assert [server["lines"] for server in chosen["servers"]] == [["beta starts"]]
        assert (await stage.command(request="logs", server="gamma"))["servers"] == []
        await first.leave()
        await second.leave()

    play(scene, era="modern")


def test_stop_ends_the_chosen_process_and_no_session():
    async def scene(stage):
        first, second = await stage.connect("alpha"), await stage.connect("beta")
        stopped = await stage.command(request="stop", server="alpha")
        assert [server["command"] for server in stopped["stopped"]] == [["alpha"]]
        assert [back.stops for back in stage.backs] == [1, 0]
        assert (await first.ask(PING))["result"] == (await second.ask(PING))["result"] == {}
        await first.leave()
        await stage.command(request="stop", server="alpha")
        assert stage.backs[0].is_closed.is_set()  # no host used it any more
        await second.leave()

    play(scene, era="modern")


def test_stop_ends_the_daemon():
    async def scene(stage):
        first = await stage.connect()
        stopped = await stage.command(request="stop")
        assert len(stopped["stopped"]) == 1
        await first.leave()
        await stage.task

    play(scene)
