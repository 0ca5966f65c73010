"""Connecting and listening: many connections, private socket files, obstacles."""

import asyncio
import errno
import os
import socket
import stat
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from systems import WINDOWS, on_posix
from twopipes._channels import listener as listening
from twopipes._channels import unix_socket_path as unix_path
from twopipes._channels.sockets import connect_tcp, connect_unix, listen_tcp, listen_unix
from twopipes.errors import ChannelBroken, ListenFailed, LocalProtocolError
from unit.channels.joined import blocked, nothing_left_behind, read_all, read_exactly, run, spin

if sys.platform != "win32":
    import fcntl
    import resource

NET = 30


@pytest.fixture
def path(tmp_path, monkeypatch):
    # The folders of pytest can be longer than the path of a socket may be.
    monkeypatch.chdir(tmp_path)
    return "wire.sock"


def leave_dead_socket(path):
    """Leave what a server that was killed leaves at its path."""
    if WINDOWS:
        Path(path).write_bytes(rb"\\.\pipe\twopipes-" + b"0" * 32)
    else:
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(path)


async def echo(channel):
    while chunk := await channel.read():
        channel.write(chunk)
        await channel.drain()
    await channel.flush()


def names(folder="."):
    return sorted(file.name for file in Path(folder).iterdir())


async def never_called(channel):
    raise AssertionError(channel)


@pytest.mark.parametrize("family", ["unix", "tcp"])
def test_several_connections_are_served_at_once(family, path):
    """FR-11, FR-12: each is a conversation of its own."""

    async def body():
        everyone_is_here = asyncio.Barrier(20)

        async def on_connect(channel):
            await everyone_is_here.wait()
            await echo(channel)

        if family == "unix":
            listener = await listen_unix(path, on_connect)
        else:
            listener = await listen_tcp(0, on_connect)

        async def converse(number):
            channel = await (connect_unix(path) if family == "unix" else connect_tcp("localhost", listener.port))
            async with channel:
                said = b"%d\n" % number * 10_000
                channel.write(said)
                closing = asyncio.create_task(channel.close_write())
                assert await read_all(channel) == said
                await closing

        async with listener:
            await asyncio.gather(*(converse(number) for number in range(20)))

    run(body())


def test_a_connection_that_fails_harms_no_other():
    """SD-08: closing one connection ends that one."""

    async def body():
        reported = []

        async def on_connect(channel):
            if await channel.read() == b"fail\n":
                raise ValueError("on purpose")
            await echo(channel)

        async with (
            await listen_tcp(0, on_connect, on_error=reported.append) as listener,
            await connect_tcp("127.0.0.1", listener.port) as good,
            await connect_tcp("127.0.0.1", listener.port) as bad,
        ):
            good.write(b"hello\n")
            bad.write(b"fail\n")
            assert await bad.read() == b"", "its channel is closed"
            good.write(b"still there?")
            assert await read_exactly(good, 12) == b"still there?"
        assert [str(error) for error in reported] == ["on purpose"]

    run(body())


def test_without_on_error_the_exception_handler_of_the_loop_is_called():
    async def body():
        reported = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.set_result(context))
        async with await listen_tcp(0, never_called) as listener, await connect_tcp("127.0.0.1", listener.port):
            context = await reported
            assert isinstance(context["exception"], AssertionError)
            assert listener.address in context["message"]

    run(body())


def test_a_peer_that_closes_ends_its_own_connection_alone():
    """SD-08."""

    async def body():
        ended = asyncio.Event()

        async def on_connect(channel):
            await echo(channel)
            ended.set()

        async with await listen_tcp(0, on_connect) as listener:
            one, other = [await connect_tcp("127.0.0.1", listener.port) for _ in range(2)]
            await one.close()
            await ended.wait()
            other.write(b"still here")
            assert await read_exactly(other, 10) == b"still here"
            await other.close()

    run(body())


def test_closing_the_listener_ends_its_connections_and_leaves_nothing_behind(path):
    async def body():
        with nothing_left_behind():
            listener = await listen_unix(path, echo)
            channel = await connect_unix(path)
            channel.write(b"x")
            assert await channel.read() == b"x"
            # Accepted by the system, and perhaps not yet by the listener.
            late = await connect_unix(path)
            waiting = await blocked(listener.wait_closed())
            await listener.close()
            await listener.close()
            await waiting
            assert await channel.read() == b""
            with pytest.raises(ChannelBroken):
                await connect_unix(path)
            await channel.close()
            await late.close()
            assert asyncio.all_tasks() == {asyncio.current_task()}
        assert names() == []

    run(body())


def test_closing_the_listener_can_let_its_connections_finish(path):
    async def body():
        listener = await listen_unix(path, echo)
        async with await connect_unix(path) as channel:
            channel.write(b"x")
            assert await channel.read() == b"x"
            closing = await blocked(listener.close(cancel_connections=False))
            assert names() == []
            channel.write(b"y")
            assert await channel.read() == b"y"
            await channel.close_write()
            await closing
            assert await channel.read() == b""

    run(body())


def test_a_loop_that_watches_no_descriptors_accepts_by_a_task(path, monkeypatch):
    # As on Windows.
    monkeypatch.setattr(listening, "sys", SimpleNamespace(platform="win32"))

    async def body():
        with nothing_left_behind():
            listener = await listen_unix(path, echo)
            for _ in range(3):
                async with await connect_unix(path) as channel:
                    channel.write(b"x")
                    assert await channel.read() == b"x"
            await listener.close()
            assert asyncio.all_tasks() == {asyncio.current_task()}

    run(body())


def test_a_connection_may_close_its_own_listener(path):
    async def body():
        async def on_connect(channel):
            await listener.close()
            channel.write(b"closed")
            await channel.flush()

        listener = await listen_unix(path, on_connect)
        async with await connect_unix(path) as channel:
            assert await read_all(channel) == b"closed"

    run(body())


@on_posix("a thread accepts there")
def test_a_connection_accepted_at_the_moment_of_closing_is_closed_too(path):
    async def body():
        with nothing_left_behind():
            listener = await listen_unix(path, never_called)
            channel = await connect_unix(path)
            listener._accept()
            # Its task was created but has not run: cancelling it never enters the handler.
            await listener.close()
            assert await channel.read() == b""
            await channel.close()

    run(body())


@on_posix("files have no modes there")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_a_unix_socket_is_private_whatever_the_umask(path, umask, monkeypatch):
    seen = []
    link = os.link

    def watched(source, target):
        seen.append(stat.S_IMODE(os.lstat(source).st_mode))
        seen.append(stat.S_IMODE(source.parent.stat().st_mode))
        link(source, target)

    monkeypatch.setattr(os, "link", watched)

    async def body():
        previous = os.umask(umask)
        try:
            listener = await listen_unix(path, echo)
        finally:
            os.umask(previous)
        async with listener:
            assert stat.S_IMODE(os.lstat(path).st_mode) == 0o600
            assert seen == [0o600, 0o700], "before it appeared at its path, too"
            async with await connect_unix(path) as channel:
                channel.write(b"x")
                assert await channel.read() == b"x"
            assert names() == [path]
        assert names() == []

    run(body())


def test_a_socket_that_a_dead_server_left_is_replaced(path):
    async def body():
        leave_dead_socket(path)
        async with await listen_unix(path, echo), await connect_unix(path) as channel:
            channel.write(b"x")
            assert await channel.read() == b"x"
            assert names() == [path]

    run(body())


def test_the_socket_of_a_live_server_is_never_replaced(path):
    async def body():
        async with await listen_unix(path, echo):
            with pytest.raises(ListenFailed, match="another server is listening there"):
                await listen_unix(path, never_called)
            async with await connect_unix(path) as channel:
                channel.write(b"x")
                assert await channel.read() == b"x"
            assert names() == [path]

    run(body())


def test_a_file_that_is_not_a_socket_is_never_replaced(path):
    async def body():
        with pytest.raises(ListenFailed, match=r"is in the way. Remove it, or choose another path"):
            await listen_unix(path, never_called)

    file = Path(path)
    file.write_text("precious")
    run(body())
    assert file.read_text() == "precious"
    assert names() == [path]


@on_posix("about inodes; a mutex excludes other servers there")
def test_of_two_servers_that_find_the_same_dead_socket_the_second_does_not_take_the_place_of_the_first(path, tmp_path, monkeypatch):
    async def body():
        leave_dead_socket(path)
        first = []

        # Between looking at the dead socket and moving it, the other server is faster.
        def is_live(place, _family):
            monkeypatch.undo()
            place.unlink()
            quick = socket.socket(socket.AF_UNIX)
            quick.bind(str(place))
            quick.listen()
            first.append((quick, os.lstat(place).st_ino))
            return False

        keep_inode_numbers_apart = socket.socket(socket.AF_UNIX)
        keep_inode_numbers_apart.bind("other")
        os.link(path, "kept")
        monkeypatch.setattr("twopipes._channels.unix_socket_path._is_live", is_live)
        with pytest.raises(ListenFailed, match="another server has just started there"):
            await listen_unix(tmp_path / path, never_called)
        assert (tmp_path / path).lstat().st_ino == first[0][1]
        keep_inode_numbers_apart.close()
        first[0][0].close()

    run(body())


@on_posix("about inodes; a mutex excludes other servers there")
def test_of_servers_that_race_for_a_dead_socket_one_listens_and_none_is_displaced(path, monkeypatch):
    """While the first looks at the dead socket a second one comes, and a third while the first moves it away."""
    leave_dead_socket(path)
    os.link(path, "kept")  # so that its inode number is not used again
    placed, threads = [], []
    paused = threading.Event()

    def place():
        sock = socket.socket(socket.AF_UNIX)
        try:
            placed.append(unix_path.bind_privately(sock, path, backlog=1))
            opened.append(sock)
        except (ListenFailed, OSError):
            sock.close()
        finally:
            paused.set()

    def until_another_has_come():
        """Return when another server has finished, or waits for this one."""
        paused.clear()
        threads.append(threading.Thread(target=place))
        threads[-1].start()
        assert paused.wait(NET)

    is_live, rename = unix_path._is_live, Path.rename
    looked, moved = iter([True]), iter([True])
    first = threading.current_thread()

    def slow_is_live(place, family):
        found = is_live(place, family)
        if threading.current_thread() is first and next(looked, False):
            until_another_has_come()
        return found

    def slow_rename(source, target):
        rename(source, target)
        if threading.current_thread() is first and next(moved, False):
            until_another_has_come()

    opened = []
    monkeypatch.setattr(unix_path, "_is_live", slow_is_live)
    monkeypatch.setattr(Path, "rename", slow_rename)
    monkeypatch.setattr(unix_path, "_pause", paused.set, raising=False)
    place()
    for thread in threads:
        thread.join(NET)

    (winner,) = placed
    assert len(threads) == 2
    assert Path(path).lstat().st_ino == winner.inode
    for sock in opened:
        sock.close()


@on_posix("a folder has no lock there")
def test_a_folder_that_stays_locked_is_named_in_the_error(path, tmp_path, monkeypatch):
    monkeypatch.setattr(unix_path, "PATIENCE", 0.0)
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)

    async def body():
        with pytest.raises(ListenFailed, match=f"another process holds the lock on the folder {tmp_path}"):
            await listen_unix(path, never_called)
        assert names() == []

    try:
        run(body())
    finally:
        os.close(folder)


def test_closing_leaves_a_socket_alone_that_another_server_put_there(path):
    async def body():
        listener = await listen_unix(path, echo)
        await asyncio.to_thread(Path(path).rename, "moved")
        other = await listen_unix(path, echo)
        await listener.close()
        assert names() == ["moved", path]
        await other.close()
        assert names() == ["moved"]

    run(body())


def test_closing_finds_its_file_after_the_working_directory_changed(path, tmp_path, monkeypatch):
    async def body():
        async with await listen_unix(path, echo):
            monkeypatch.chdir("/")
        assert names(tmp_path) == []

    run(body())


@on_posix("any path of a file will do there")
def test_a_path_that_is_too_long_is_refused_with_its_length():
    async def body():
        for attempt in (connect_unix("/" + "x" * 107), listen_unix("/" + "x" * 107, never_called)):
            with pytest.raises(LocalProtocolError, match=r"108 bytes.*107.*choose a shorter path"):
                await attempt

    run(body())


def test_a_failed_connection_names_its_target(path):
    async def body():
        with pytest.raises(ChannelBroken, match=r"unix:wire.sock: the socket file does not exist; is the server running\?"):
            await connect_unix(path)
        leave_dead_socket(path)
        with pytest.raises(ChannelBroken, match=r"unix:wire.sock: connection refused; is the server running\?"):
            await connect_unix(path)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with pytest.raises(ChannelBroken, match=rf"tcp 127.0.0.1:{port}: 127.0.0.1: connection refused"):
            await connect_tcp("127.0.0.1", port)

    run(body())


def test_an_unknown_host_name_is_reported(monkeypatch):
    async def body():
        def unknown(host, *_, **__):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        monkeypatch.setattr(socket, "getaddrinfo", unknown)
        with pytest.raises(ChannelBroken, match=r"tcp no.such.host:1: cannot resolve the name: Name or service not known"):
            await connect_tcp("no.such.host", 1)

    run(body())


def test_a_missing_folder_is_reported(tmp_path, monkeypatch):
    async def body():
        monkeypatch.chdir(tmp_path)
        with nothing_left_behind(), pytest.raises(ListenFailed, match=r"cannot listen on unix:.*No such file or directory"):
            await listen_unix("missing/wire.sock", never_called)

    run(body())


def test_tcp_is_bound_to_the_loopback_address_by_default():
    async def body():
        async with await listen_tcp(0, echo) as listener:
            assert listener._sock.getsockname()[0] == "127.0.0.1"
            assert listener.address == f"tcp 127.0.0.1:{listener.port}"
            reason = "" if WINDOWS else "Address already in use"  # there it is in the language of the system
            with pytest.raises(ListenFailed, match=f"cannot listen on tcp 127.0.0.1:{listener.port}: {reason}"):
                await listen_tcp(listener.port, never_called)

    run(body())


def test_a_port_that_does_not_exist_is_refused():
    async def body():
        for attempt in (connect_tcp("127.0.0.1", 70_000), listen_tcp(-1, never_called)):
            with pytest.raises(LocalProtocolError, match="a port must be a number from 0 to 65535"):
                await attempt

    run(body())


def test_small_messages_over_tcp_are_not_held_back():
    async def body():
        accepted = asyncio.get_running_loop().create_future()

        async def on_connect(channel):
            accepted.set_result(channel)
            await channel.read()

        async with await listen_tcp(0, on_connect) as listener, await connect_tcp("127.0.0.1", listener.port) as channel:
            for each in (channel, await accepted):
                with socket.fromfd(each._source._fd, socket.AF_INET, socket.SOCK_STREAM) as sock:
                    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    run(body())


@on_posix("the number of handles is not limited there")
def test_a_listener_that_gets_no_descriptor_pauses_and_goes_on(path, monkeypatch):
    monkeypatch.setattr(listening, "PAUSE", 0.01)

    async def body():
        reported = asyncio.Queue()
        async with await listen_unix(path, echo, on_error=reported.put_nowait) as listener:
            channel = await connect_unix(path)
            channel.write(b"x")
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (channel._source._fd + 1, hard))
            try:
                # No lower number is free either, now.
                taken = []
                try:
                    while True:
                        taken.append(os.dup(2))
                except OSError:
                    pass
                error = await reported.get()
                assert error.errno == errno.EMFILE
                assert listener._resume is not None, "it waits for the clock, not for the socket that stays ready"
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                for fd in taken:
                    os.close(fd)
            assert await channel.read() == b"x"
            await channel.close()

    run(body())


@on_posix("tests/windows/test_named_pipes.py has the busy pipes")
def test_a_full_queue_of_connections_is_waited_for(path):
    async def body():
        with socket.socket(socket.AF_UNIX) as slow:
            slow.bind(path)
            slow.listen(0)
            slow.settimeout(0)
            first = await connect_unix(path)
            waiting = []
            connecting = asyncio.create_task(connect_unix(path))
            await spin()
            # Whether the system queues one or two, accepting makes room for everyone.
            while not connecting.done():
                try:
                    waiting.append(slow.accept()[0])
                except BlockingIOError:
                    await asyncio.sleep(0)
            await (await connecting).close()
            await first.close()
            for sock in waiting:
                sock.close()

    run(body())


@on_posix("tests/windows/test_named_pipes.py has the busy pipes")
def test_a_queue_that_stays_full_ends_the_attempt(path, monkeypatch):
    monkeypatch.setattr("twopipes._channels.sockets.QUEUE_PAUSE", 0)

    async def body():
        with socket.socket(socket.AF_UNIX) as stuck:
            stuck.bind(path)
            stuck.listen(0)
            connected = []

            async def connect_for_ever():
                while True:
                    connected.append(await connect_unix(path))

            with pytest.raises(ChannelBroken, match="queue of pending connections stayed full"):
                await connect_for_ever()
            for channel in connected:
                await channel.close()

    run(body())
