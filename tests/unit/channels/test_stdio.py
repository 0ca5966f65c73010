"""Standard input and output as hosts really connect them: pipes, socket pairs, files, terminals, nothing."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
import tty

import pytest

from twopipes._channels.descriptor import DescriptorSink, DescriptorSource
from twopipes._channels.pipes import PipeChannel
from twopipes._channels.stdio import open_stdio
from twopipes._channels.threads import ThreadSink, ThreadSource
from twopipes.errors import ChannelBroken, ChannelClosed
from unit.channels.joined import LARGE, PLENTY, blocked, nothing_left_behind, outcome, read_all, read_exactly, run

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="made of POSIX descriptors")]

# Sends back what it reads, and says on descriptor 2 what it was given and whether that still blocks.
ECHO = """
import asyncio, os
from twopipes._channels.stdio import open_stdio

async def main():
    async with open_stdio() as channel:
        while chunk := await channel.read():
            channel.write(chunk)
            await channel.drain()
        await channel.flush()
    return channel.description

description = asyncio.run(main())
if not os.path.sameopenfile(1, 2):
    os.write(2, description.encode())
"""


def start(**streams):
    return subprocess.Popen([sys.executable, "-c", ECHO], **streams)


def test_a_child_with_pipes_echoes():
    done = subprocess.run([sys.executable, "-c", ECHO], input=PLENTY, capture_output=True, check=True)
    assert done.stdout == PLENTY
    assert done.stderr == b"stdio (pipe fd 0, pipe fd 1)"


def test_a_child_with_a_socket_pair_echoes():
    """FR-11: hosts written for Node connect sockets where others connect pipes."""
    ours, theirs = socket.socketpair()
    with ours, theirs, start(stdin=theirs, stdout=theirs, stderr=subprocess.PIPE) as child:
        theirs.close()
        sender = threading.Thread(target=lambda: (ours.sendall(PLENTY), ours.shutdown(socket.SHUT_WR)))
        sender.start()
        received = bytearray()
        while chunk := ours.recv(65536):
            received += chunk
        sender.join()
        assert child.stderr.read() == b"stdio (socket fd 0, socket fd 1)"
    assert received == PLENTY
    assert child.returncode == 0


def test_a_child_with_files_echoes(tmp_path):
    given, taken = tmp_path / "in", tmp_path / "out"
    given.write_bytes(PLENTY)
    with given.open("rb") as stdin, taken.open("wb") as stdout:
        done = subprocess.run([sys.executable, "-c", ECHO], stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, check=True)
    assert taken.read_bytes() == PLENTY
    assert done.stderr == b"stdio (file fd 0, file fd 1)"


def test_a_child_with_a_file_and_a_pipe_echoes(tmp_path):
    given = tmp_path / "in"
    given.write_bytes(PLENTY)
    with given.open("rb") as stdin:
        done = subprocess.run([sys.executable, "-c", ECHO], stdin=stdin, capture_output=True, check=True)
    assert done.stdout == PLENTY
    assert done.stderr == b"stdio (file fd 0, pipe fd 1)"


def test_a_child_without_input_ends_at_once():
    done = subprocess.run([sys.executable, "-c", ECHO], stdin=subprocess.DEVNULL, capture_output=True, check=True)
    assert done.stdout == b""
    assert done.stderr == b"stdio (device fd 0, pipe fd 1)"


def test_a_child_on_a_terminal_echoes_and_leaves_the_terminal_blocking():
    master, slave = os.openpty()
    tty.setraw(slave)
    with start(stdin=slave, stdout=slave, stderr=subprocess.PIPE) as child:
        os.write(master, b"typed\n")
        received = b""
        while len(received) < 6:
            received += os.read(master, 100)
        assert received == b"typed\n"
        assert os.get_blocking(slave), "the description is the shell's as much as the child's"
        os.close(slave)
        os.close(master)
        assert child.stderr.read() == b"stdio (terminal fd 0, terminal fd 1)"
    assert child.returncode == 0


REPORTS_WHETHER_STDERR_BLOCKS = """
import asyncio, os
from twopipes._channels.stdio import open_stdio

async def main():
    async with open_stdio() as channel:
        channel.write(await channel.read())
        await channel.flush()
        os.write(2, b"open: %r\\n" % os.get_blocking(2))
    os.write(2, b"closed: %r\\n" % os.get_blocking(2))

asyncio.run(main())
"""


@pytest.mark.parametrize("connect", ["pipe", "socket"])
def test_stderr_that_shares_the_description_of_stdout_keeps_blocking(connect):
    command = [sys.executable, "-c", REPORTS_WHETHER_STDERR_BLOCKS]
    if connect == "pipe":
        done = subprocess.run(command, input=b"hello\n", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True)
        said = done.stdout
    else:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.sendall(b"hello\n")
            subprocess.run(command, stdin=theirs, stdout=theirs, stderr=theirs, check=True)
            theirs.close()
            said = ours.recv(1000)
    expected = b"hello\nopen: True\nclosed: True\n"
    if connect == "pipe" and sys.platform != "linux":
        expected = b"hello\nopen: False\nclosed: True\n"
    assert said == expected


def test_a_default_timeout_of_the_program_does_not_make_reads_wait():
    async def body():
        ours, theirs = socket.socketpair()
        socket.setdefaulttimeout(3600)
        try:
            channel = open_stdio(ours.fileno(), ours.fileno())
        finally:
            socket.setdefaulttimeout(None)
        with ours, theirs:
            async with channel:
                # As if the loop had reported bytes that another process then read.
                channel._source._waiter = asyncio.get_running_loop().create_future()
                channel._source._readable()
                assert not channel._source._waiter.done()
                channel._source._waiter = None
            assert os.get_blocking(ours.fileno())

    run(body())


def test_a_standard_input_that_is_not_open_is_named():
    program = "from twopipes._channels.stdio import open_stdio\nopen_stdio()"
    done = subprocess.run(["sh", "-c", 'exec "$0" -c "$1" <&-', sys.executable, program], capture_output=True, check=False)
    assert b"ChannelClosed: standard input (descriptor 0) is not open" in done.stderr


def test_a_standard_output_that_is_not_open_is_named_and_the_input_is_left_alone():
    read_end, write_end = os.pipe()
    os.close(write_end)
    with nothing_left_behind(), pytest.raises(ChannelClosed, match=r"standard output .* is not open"):
        open_stdio(read_end, write_end)
    os.close(read_end)


def test_descriptors_that_are_not_owned_stay_open():
    async def body():
        in_read, in_write = os.pipe()
        out_read, out_write = os.pipe()
        with nothing_left_behind():
            async with open_stdio(in_read, out_write) as channel:
                channel.write(b"x")
                await channel.close_write()
        os.write(out_write, b"y")
        assert os.read(out_read, 10) == b"xy"
        for fd in (in_read, in_write, out_read, out_write):
            os.close(fd)

    run(body())


@pytest.mark.parametrize("reason", ["no /proc", "a pipe of another user"])
def test_where_a_pipe_cannot_be_opened_again_it_is_made_non_blocking_and_put_back(reason, monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "readlink" if reason == "no /proc" else "open", refuse)

    async def body():
        in_read, in_write = os.pipe()
        out_read, out_write = os.pipe()
        async with open_stdio(in_read, out_write) as ours, PipeChannel(out_read, in_write) as theirs:
            assert not os.get_blocking(in_read)
            theirs.write(b"there")
            ours.write(await ours.read())
            assert await theirs.read() == b"there"
        assert os.get_blocking(in_read)
        assert os.get_blocking(out_write)
        os.close(in_read)
        os.close(out_write)

    run(body())


def test_a_pipe_that_was_non_blocking_before_stays_so(monkeypatch):
    def refuse(*_):
        raise FileNotFoundError

    monkeypatch.setattr(os, "readlink", refuse)

    async def body():
        in_read, in_write = os.pipe()
        os.set_blocking(in_read, False)
        async with open_stdio(in_read, in_write):
            pass
        assert not os.get_blocking(in_read)
        os.close(in_read)
        os.close(in_write)

    run(body())


def test_a_named_pipe_whose_writer_has_left_ends(tmp_path):
    async def body():
        path = tmp_path / "fifo"
        os.mkfifo(path)
        in_read = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(in_read, True)
        in_write = os.open(path, os.O_WRONLY)
        os.write(in_write, b"all of it")
        os.close(in_write)
        out = os.open(os.devnull, os.O_WRONLY)
        async with open_stdio(in_read, out, owned=True) as channel:
            assert await read_all(channel) == b"all of it"

    run(body())


def test_a_full_disk_is_a_broken_channel():
    async def body():
        null, full = os.open(os.devnull, os.O_RDONLY), os.open("/dev/full", os.O_WRONLY)
        with nothing_left_behind():
            async with open_stdio(null, full) as channel:
                channel.write(LARGE)
                with pytest.raises(ChannelBroken, match="No space left"):
                    await channel.flush()
                with pytest.raises(ChannelBroken):
                    channel.write(b"more")
                assert await channel.read() == b""
        os.close(null)
        os.close(full)

    run(body())


def test_closing_does_not_wait_for_a_thread_that_reads_a_terminal_and_what_it_brings_is_dropped():
    async def body():
        master, slave = os.openpty()
        tty.setraw(slave)
        with nothing_left_behind():
            channel = open_stdio(slave, slave)
            reading = await blocked(channel.read())
            await channel.close()
            assert isinstance(await outcome(reading), ChannelClosed)
            # Only this lets the thread end; nothing_left_behind waits for it.
            os.write(master, b"too late")
        with pytest.raises(ChannelClosed):
            await channel.read()
        os.close(master)
        os.close(slave)

    run(body())


def test_closing_does_not_wait_for_a_thread_that_writes_to_a_terminal_without_a_reader():
    async def body():
        master, slave = os.openpty()
        tty.setraw(slave)
        with nothing_left_behind():
            channel = open_stdio(slave, slave)
            channel.write(LARGE)
            draining = await blocked(channel.drain())
            await channel.close()
            assert isinstance(await outcome(draining), ChannelClosed)
            # A hang-up ends the blocking write.
            os.close(slave)
            os.close(master)
            for thread in threading.enumerate():
                if thread.name.startswith(("twopipes reader", "twopipes writer")):
                    thread.join(30)
            # The same two numbers again, so that what is counted is what the channel left.
            master, slave = os.openpty()
        os.close(master)
        os.close(slave)

    run(body())


def test_a_terminal_that_another_process_made_non_blocking_still_works():
    async def body():
        master, slave = os.openpty()
        tty.setraw(slave)
        os.set_blocking(slave, False)
        async with open_stdio(slave, slave) as channel:
            reading = await blocked(channel.read())
            os.write(master, b"typed")
            assert await reading == b"typed"
            channel.write(PLENTY[:1_000_000])
            loop = asyncio.get_running_loop()
            received = b""
            while len(received) < 1_000_000:
                received += await loop.run_in_executor(None, os.read, master, 65536)
            assert received == PLENTY[:1_000_000]
        os.close(master)
        os.close(slave)

    run(body())


@pytest.mark.slow
def test_which_descriptor_gets_which_treatment(tmp_path):
    async def body():
        file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
        read_end, write_end = os.pipe()
        ours, theirs = socket.socketpair()
        null = os.open(os.devnull, os.O_RDWR)
        for stdin, stdout, source, sink in [
            (file, write_end, ThreadSource, DescriptorSink),
            (read_end, file, DescriptorSource, ThreadSink),
            (ours.fileno(), null, DescriptorSource, ThreadSink),
            (null, ours.fileno(), ThreadSource, DescriptorSink),
        ]:
            with nothing_left_behind():
                async with open_stdio(stdin, stdout) as channel:
                    assert type(channel._source) is source
                    assert type(channel._sink) is sink
        for fd in (file, read_end, write_end, null):
            os.close(fd)
        ours.close()
        theirs.close()

    run(body())


def test_a_thread_never_reads_ahead(tmp_path):
    async def body():
        path = tmp_path / "in"
        path.write_bytes(PLENTY)
        fd, null = os.open(path, os.O_RDONLY), os.open(os.devnull, os.O_WRONLY)
        async with open_stdio(fd, null) as channel:
            first = await channel.read()
            # The position is a property of the description, which the duplicate shares.
            assert os.lseek(fd, 0, os.SEEK_CUR) == len(first)
            assert first + await read_exactly(channel, len(PLENTY) - len(first)) == PLENTY
            assert await channel.read() == b""
        os.close(fd)
        os.close(null)

    run(body())


def test_a_channel_may_be_closed_in_a_later_loop_than_the_one_that_used_it():
    read_end, write_end = os.pipe()
    with nothing_left_behind():
        channel = open_stdio(read_end, write_end)

        async def use():
            channel.write(PLENTY)
            assert await channel.read()
            assert channel.buffered > 0

        run(use())
        run(channel.close())
    os.close(read_end)
    os.close(write_end)
