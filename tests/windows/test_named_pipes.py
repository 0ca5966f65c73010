"""Named pipes: who may open them, and what another program can do with their names."""

import asyncio
import ctypes
import sys
from pathlib import Path

import pytest

from systems import not_under_wine
from twopipes._channels.sockets import connect_unix, listen_unix
from twopipes.errors import ChannelBroken

if sys.platform == "win32":
    import _winapi

    from twopipes._channels.named_pipe import PREFIX, NamedPipe, new_instance, read_name

NET = 60
DACL = 4
SDDL_REVISION = 1
# More than the buffer of a pipe.
LARGE = b"x" * 200_000


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "wire.sock")


def bounded(body):
    async def run():
        async with asyncio.timeout(NET):
            await body

    asyncio.run(run())


async def echo(channel):
    while chunk := await channel.read():
        channel.write(chunk)
        await channel.drain()
    await channel.flush()


def rights_of(handle):
    """Return who may open something, in the language of Windows for that."""
    security = ctypes.WinDLL("advapi32", use_last_error=True)
    size, text, handle = ctypes.c_ulong(), ctypes.c_wchar_p(), ctypes.c_void_p(handle)
    security.GetKernelObjectSecurity(handle, DACL, None, 0, ctypes.byref(size))
    descriptor = ctypes.create_string_buffer(size.value)
    assert security.GetKernelObjectSecurity(handle, DACL, descriptor, size, ctypes.byref(size)), ctypes.get_last_error()
    convert = security.ConvertSecurityDescriptorToStringSecurityDescriptorW
    assert convert(descriptor, SDDL_REVISION, DACL, ctypes.byref(text), None), ctypes.get_last_error()
    return text.value


def test_only_this_user_may_open_a_pipe():
    pipe = new_instance(PREFIX + "rights", is_first=True)
    try:
        rights = rights_of(pipe._handle)
    finally:
        pipe.close()
    assert rights.startswith("D:P(A;;"), rights
    assert rights.count("(") == 1, rights
    assert ";;;WD)" not in rights, "everyone"


@not_under_wine("it ignores FILE_FLAG_FIRST_PIPE_INSTANCE")
def test_a_name_that_another_program_has_taken_is_refused():
    """A program that creates the pipe first must not get our clients."""
    name = PREFIX + "taken"
    theirs = _winapi.CreateNamedPipe(name, _winapi.PIPE_ACCESS_DUPLEX, 0, 10, 1024, 1024, 0, _winapi.NULL)
    try:
        with pytest.raises(OSError, match="WinError"):
            new_instance(name, is_first=True)
    finally:
        _winapi.CloseHandle(theirs)


@pytest.mark.parametrize("text", [rb"\\.\pipe\other", b"", rb"C:\secret.txt", b"\xff" * 1000])
def test_a_file_that_names_something_else_is_not_followed(path, text):
    Path(path).write_bytes(text)

    async def scenario():
        with pytest.raises(ChannelBroken, match="connection refused"):
            await connect_unix(path)

    bounded(scenario())


def test_a_pipe_whose_ends_are_all_in_use_is_waited_for(path, monkeypatch):
    name = PREFIX + "busy"
    Path(path).write_bytes(name.encode())
    ends = [new_instance(name, is_first=True)]
    attempts = []

    def pause(_):
        # The server creates its next end.
        attempts.append(len(ends))
        ends.append(new_instance(name))
        return real_sleep(0)

    real_sleep = asyncio.sleep

    async def scenario():
        one = await connect_unix(path)
        monkeypatch.setattr(asyncio, "sleep", pause)
        other = await connect_unix(path)
        monkeypatch.undo()
        for channel in (one, other):
            await channel.close()

    try:
        bounded(scenario())
    finally:
        for end in ends:
            end.close()
    assert attempts == [1]


def test_a_pipe_that_stays_busy_ends_the_attempt(path, monkeypatch):
    monkeypatch.setattr("twopipes._channels.sockets.QUEUE_PAUSE", 0)
    name = PREFIX + "stuck"
    Path(path).write_bytes(name.encode())
    only = new_instance(name, is_first=True)

    async def scenario():
        channel = await connect_unix(path)
        with pytest.raises(ChannelBroken, match="queue of pending connections stayed full"):
            await connect_unix(path)
        await channel.close()

    try:
        bounded(scenario())
    finally:
        only.close()


def test_a_client_that_goes_at_once_harms_no_other(path):
    async def scenario():
        async with await listen_unix(path, echo):
            name = read_name(path)
            for _ in range(10):
                access = _winapi.GENERIC_READ | _winapi.GENERIC_WRITE
                gone = _winapi.CreateFile(name, access, 0, _winapi.NULL, _winapi.OPEN_EXISTING, 0, _winapi.NULL)
                _winapi.CloseHandle(gone)
                async with await connect_unix(path) as channel:
                    channel.write(LARGE)
                    await channel.close_write()
                    received = b""
                    while chunk := await channel.read():
                        received += chunk
                    assert received == LARGE

    bounded(scenario())


def test_a_listener_goes_on_after_an_unexpected_error(path, monkeypatch):
    reported = []
    wait_for_client = NamedPipe.wait_for_client

    def failing_once(pipe):
        if not reported:
            raise OSError("as if the system had failed")
        return wait_for_client(pipe)

    async def body():
        failed = asyncio.Event()

        def on_error(error):
            reported.append(error)
            failed.set()

        monkeypatch.setattr(NamedPipe, "wait_for_client", failing_once)
        async with await listen_unix(path, echo, on_error=on_error):
            await failed.wait()
            async with await connect_unix(path) as channel:
                channel.write(b"hello")
                assert await channel.read() == b"hello"

    bounded(body())
    assert {str(error) for error in reported} == {"as if the system had failed"}
