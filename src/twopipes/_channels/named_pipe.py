"""Named pipes, which take the place of Unix sockets on Windows.

A server listens at a *path*, as with a Unix socket. The file there contains the name of its pipe, which is random, so that no other
program can take the name first. Only this user may open the pipe, and no other machine. A file whose pipe does not exist was left
behind by a server that was killed, and is replaced.

A pipe has no half-close. It carries messages, which are read as bytes; an empty message is EOF. (Docker does the same.)
"""

from __future__ import annotations

import sys

if sys.platform == "win32":
    import _winapi
    import asyncio
    import contextlib
    import ctypes
    import errno
    import os
    import secrets
    import threading
    from collections.abc import Iterator
    from contextlib import suppress
    from ctypes import wintypes
    from typing import Any, Self

    from twopipes._channels.base import HIGH_WATER, LOW_WATER
    from twopipes._channels.halves import TwoHalves
    from twopipes._channels.threads import ThreadSink, ThreadSource
    from twopipes.errors import ListenFailed

    PREFIX = r"\\.\pipe\twopipes-"
    # Bytes in each direction that the system keeps for a slow reader, as in a Linux pipe.
    CAPACITY = 64 * 1024
    # Bytes of the file with the name of a pipe.
    MAX_NAME = 256
    # Seconds. The mutex is held for a few system calls only; after this time something is wrong.
    PATIENCE = 5.0
    # Seconds without accepting after the system could not create another pipe.
    PAUSE = 0.5
    # Seconds for an empty message, which a pipe takes at once.
    EOF_TIMEOUT = 1.0
    JOIN_TIMEOUT = 1.0

    PIPE_REJECT_REMOTE_CLIENTS = 0x00000008
    PIPE_TYPE_MESSAGE = 0x00000004
    # A server must not act with the rights of a client that connects to it.
    SECURITY_IDENTIFICATION = 0x00110000
    ERROR_PIPE_BUSY = 231
    # The peer has closed its end: while we read, while we write, and before we accepted it.
    GONE = {109, 232, 233}
    TOKEN_QUERY = 0x0008
    TOKEN_USER = 1

    class _SecurityAttributes(ctypes.Structure):
        _fields_ = (("nLength", wintypes.DWORD), ("lpSecurityDescriptor", ctypes.c_void_p), ("bInheritHandle", wintypes.BOOL))

    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    _security = ctypes.WinDLL("advapi32", use_last_error=True)
    _PROTOTYPES: tuple[tuple[Any, ...], ...] = (
        (_kernel.CreateEventW, wintypes.HANDLE, ctypes.c_void_p, wintypes.BOOL, wintypes.BOOL, wintypes.LPCWSTR),
        (_kernel.SetEvent, wintypes.BOOL, wintypes.HANDLE),
        (_kernel.CreateMutexW, wintypes.HANDLE, ctypes.c_void_p, wintypes.BOOL, wintypes.LPCWSTR),
        (_kernel.ReleaseMutex, wintypes.BOOL, wintypes.HANDLE),
        (_kernel.LocalFree, ctypes.c_void_p, ctypes.c_void_p),
        (_kernel.GetCurrentProcess, wintypes.HANDLE),
        (_security.OpenProcessToken, wintypes.BOOL, wintypes.HANDLE, wintypes.DWORD, ctypes.POINTER(wintypes.HANDLE)),
        (
            *(_security.GetTokenInformation, wintypes.BOOL, wintypes.HANDLE, ctypes.c_int),
            *(ctypes.c_void_p, wintypes.DWORD, ctypes.POINTER(wintypes.DWORD)),
        ),
        (_security.ConvertSidToStringSidW, wintypes.BOOL, ctypes.c_void_p, ctypes.POINTER(wintypes.LPWSTR)),
        (
            *(_security.ConvertStringSecurityDescriptorToSecurityDescriptorW, wintypes.BOOL, wintypes.LPCWSTR),
            *(wintypes.DWORD, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p),
        ),
    )
    for _function, _result, *_arguments in _PROTOTYPES:
        _function.restype, _function.argtypes = _result, _arguments

    def _check(succeeded: object) -> None:
        if not succeeded:
            raise ctypes.WinError(ctypes.get_last_error())

    class NamedPipe:
        """One end of a connected named pipe, with the methods of a blocking socket.

        Two threads may use it at the same time, one to read and one to write. :meth:`wake` ends their calls.
        """

        def __init__(self, handle: int) -> None:
            self._handle = handle
            self._timeout: float | None = None
            self._users = 1
            self._lock = threading.Lock()
            self._stop: int = _kernel.CreateEventW(None, True, False, None)
            if not self._stop:
                _winapi.CloseHandle(handle)
                _check(succeeded=False)

        def wait_for_client(self) -> bool:
            """Wait until a client connects to this end. Return False after :meth:`wake`."""
            try:
                return self._finish(_winapi.ConnectNamedPipe(self._handle, overlapped=True)) is not None
            except OSError as error:
                if error.winerror in GONE:
                    return True  # it has connected and gone; reading from it will show that
                raise

        def recv(self, size: int) -> bytes:
            """Return at least one byte, or ``b""`` at EOF."""
            try:
                reading, _ = _winapi.ReadFile(self._handle, size, overlapped=True)
                length = self._finish(reading)
            except OSError as error:
                if error.winerror in GONE:
                    return b""
                raise
            return bytes(reading.getbuffer() or b"")[:length] if length else b""

        def send(self, data: bytes | memoryview) -> int:
            """Write the data and return its length."""
            writing, _ = _winapi.WriteFile(self._handle, bytes(data), overlapped=True)
            if (length := self._finish(writing)) is None:
                raise ConnectionAbortedError(errno.ECONNABORTED, "the pipe was closed on this side")
            return length

        def sendall(self, data: bytes) -> None:
            """Write all of the data, in pieces that fit into the buffer of the pipe."""
            view = memoryview(data)
            while view:
                view = view[self.send(view[:CAPACITY]) :]

        def shut_write(self) -> None:
            """Send EOF to the peer. It is lost if the peer is gone."""
            with suppress(OSError):
                writing, _ = _winapi.WriteFile(self._handle, b"", overlapped=True)
                self._finish(writing, EOF_TIMEOUT)

        def settimeout(self, seconds: float | None) -> None:
            """Limit each call; it raises ``TimeoutError`` then."""
            self._timeout = seconds

        def _finish(self, operation: _winapi.Overlapped, seconds: float | None = None) -> int | None:
            """Wait for an operation and return its length; ``None`` if it was ended by :meth:`wake`."""
            limit = self._timeout if seconds is None else seconds
            milliseconds = _winapi.INFINITE if limit is None else int(limit * 1000)
            found = _winapi.WaitForMultipleObjects((operation.event, self._stop), False, milliseconds)
            if found != _winapi.WAIT_OBJECT_0:
                operation.cancel()
            length, error = operation.GetOverlappedResult(True)
            if error != _winapi.ERROR_OPERATION_ABORTED:
                return length
            if found == _winapi.WAIT_TIMEOUT:
                raise TimeoutError(errno.ETIMEDOUT, "timed out")
            return None

        def wake(self) -> None:
            """End calls that wait now, and all later ones."""
            _kernel.SetEvent(self._stop)

        def share(self) -> Self:
            """Return it for one more user: it is closed when each of them has called :meth:`close`."""
            with self._lock:
                self._users += 1
            return self

        def close(self) -> None:
            """Close it. What was written stays readable for the peer."""
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    _winapi.CloseHandle(self._handle)
                    _winapi.CloseHandle(self._stop)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            self.close()

    class NamedPipeChannel(TwoHalves):
        """A channel over a connected named pipe, which it owns and closes. Two daemon threads do the work."""

        def __init__(self, pipe: NamedPipe, description: str, *, high_water: int = HIGH_WATER, low_water: int = LOW_WATER) -> None:
            # The number of a descriptor serves forked processes only, which Windows does not have.
            source = ThreadSource(description, -1, receive=pipe.recv, release=pipe.close, wake=pipe.wake)
            sink = ThreadSink(
                *(description, -1),
                send=pipe.send,
                release=pipe.share().close,
                shut=pipe.shut_write,
                wake=pipe.wake,
                water=(high_water, low_water),
            )
            super().__init__(source, sink, description)

    def open_pipe(path: str) -> NamedPipe:
        """Connect to the server that listens at a path.

        Raises:
            BlockingIOError: It is about to accept another client; try again.
            FileNotFoundError: There is no such file.
            ConnectionRefusedError: The server that created the file is gone, or the file has another meaning.
            OSError: The pipe cannot be opened.
        """
        name = _read_name(path)
        flags = _winapi.FILE_FLAG_OVERLAPPED | SECURITY_IDENTIFICATION
        access = _winapi.GENERIC_READ | _winapi.GENERIC_WRITE
        try:
            return NamedPipe(_winapi.CreateFile(name, access, 0, _winapi.NULL, _winapi.OPEN_EXISTING, flags, _winapi.NULL))
        except FileNotFoundError:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "connection refused") from None
        except OSError as error:
            if error.winerror == ERROR_PIPE_BUSY:
                raise BlockingIOError(errno.EAGAIN, "the pipe is busy") from None
            raise

    def _read_name(path: str) -> str:
        with open(path, "rb") as file:
            name = file.read(MAX_NAME).decode("ascii", "replace")
        if not name.startswith(PREFIX):
            raise ConnectionRefusedError(errno.ECONNREFUSED, "the file does not name a pipe of twopipes")
        return name

    class PipeAcceptor:
        """A pipe that accepts connections, and the file with its name. A daemon thread waits for clients."""

        def __init__(self, path: str) -> None:
            self._path = path
            self._name = PREFIX + secrets.token_hex(16)
            self._loop = asyncio.get_running_loop()
            self._accepted: asyncio.Queue[NamedPipe | OSError] = asyncio.Queue()
            self._closed = threading.Event()
            self._waiting = _new_instance(self._name, is_first=True)
            try:
                _place_name(path, self._name)
            except BaseException:
                self._waiting.close()
                raise
            self._thread = threading.Thread(target=self._accept_all, name=f"twopipes listener at {path}", daemon=True)
            self._thread.start()

        async def accept(self) -> NamedPipeChannel:
            """Return the next connection. Raises ``OSError`` if the system cannot accept one."""
            found = await self._accepted.get()
            if isinstance(found, OSError):
                raise found
            return NamedPipeChannel(found, f"connection to unix:{self._path}")

        def close(self) -> None:
            """Stop accepting, and remove the file unless another server has replaced it."""
            self._closed.set()
            self._waiting.wake()
            self._thread.join(JOIN_TIMEOUT)
            while not self._accepted.empty():
                self._deliver(self._accepted.get_nowait())
            with suppress(OSError), _locked():
                if _read_name(self._path) == self._name:
                    os.unlink(self._path)

        def _accept_all(self) -> None:
            try:
                # In this order: close() wakes the end that it finds here.
                while not self._closed.is_set() and self._waiting.wait_for_client():
                    connected, self._waiting = self._waiting, self._next_instance()
                    if not self._post(connected):
                        connected.close()
                        break
            except OSError as error:
                self._post(error)
            self._waiting.close()

        def _next_instance(self) -> NamedPipe:
            """Create the end for the next client. If the system has no resources left, try again until the listener is closed."""
            while True:
                try:
                    return _new_instance(self._name)
                except OSError as error:
                    if self._closed.wait(PAUSE):
                        raise
                    self._post(error)

        def _post(self, found: NamedPipe | OSError) -> bool:
            try:
                self._loop.call_soon_threadsafe(self._deliver, found)
            except RuntimeError:  # the loop is closed
                return False
            return True

        def _deliver(self, found: NamedPipe | OSError) -> None:
            if not self._closed.is_set():
                self._accepted.put_nowait(found)
            elif isinstance(found, NamedPipe):
                found.close()

    def _new_instance(name: str, *, is_first: bool = False) -> NamedPipe:
        """Create one more end of a pipe for a client. The first one fails if the name is taken."""
        mode = _winapi.PIPE_ACCESS_DUPLEX | _winapi.FILE_FLAG_OVERLAPPED
        if is_first:
            mode |= _winapi.FILE_FLAG_FIRST_PIPE_INSTANCE
        kind = PIPE_TYPE_MESSAGE | _winapi.PIPE_WAIT | PIPE_REJECT_REMOTE_CLIENTS
        with _only_this_user() as security:
            handle = _winapi.CreateNamedPipe(
                name, mode, kind, _winapi.PIPE_UNLIMITED_INSTANCES, CAPACITY, CAPACITY, 0, ctypes.addressof(security)
            )
        return NamedPipe(handle)

    def _place_name(path: str, name: str) -> None:
        """Write the name of a pipe to a file that does not exist, or whose server is gone."""
        draft = f"{path}.{secrets.token_hex(4)}"
        try:
            with open(draft, "xb") as file:
                file.write(name.encode())
            with _locked():
                _remove_dead_name(path)
                os.rename(draft, path)  # fails if the file exists
        except FileExistsError:
            raise ListenFailed(f"cannot listen on unix:{path}: several servers are starting on that path; try again") from None
        finally:
            with suppress(FileNotFoundError):
                os.unlink(draft)

    def _remove_dead_name(path: str) -> None:
        try:
            found = _read_name(path)
        except FileNotFoundError:
            return
        except OSError:
            raise ListenFailed(
                f"cannot listen on unix:{path}: a file that is not of twopipes is in the way. Remove it, or choose another path"
            ) from None
        if _exists(found):
            raise ListenFailed(f"cannot listen on unix:{path}: another server is listening there. Stop it, or choose another path")
        os.unlink(path)

    def _exists(name: str) -> bool:
        try:
            _winapi.WaitNamedPipe(name, 1)
        except FileNotFoundError:
            return False
        except OSError:
            pass  # all its ends are in use
        return True

    @contextlib.contextmanager
    def _locked() -> Iterator[None]:
        """Exclude other servers of this session that create or remove the file of a pipe."""
        mutex: int = _kernel.CreateMutexW(None, False, r"Local\twopipes-listen")
        _check(mutex)
        try:
            if _winapi.WaitForSingleObject(mutex, int(PATIENCE * 1000)) == _winapi.WAIT_TIMEOUT:
                raise OSError(errno.EAGAIN, "another process has been starting a server for too long")
            try:
                yield
            finally:
                _kernel.ReleaseMutex(mutex)
        finally:
            _winapi.CloseHandle(mutex)

    @contextlib.contextmanager
    def _only_this_user() -> Iterator[_SecurityAttributes]:
        """Yield security attributes that give this user all rights, and nobody else any."""
        descriptor = ctypes.c_void_p()
        convert = _security.ConvertStringSecurityDescriptorToSecurityDescriptorW
        _check(convert(f"D:P(A;;GA;;;{_own_sid()})", 1, ctypes.byref(descriptor), None))
        try:
            yield _SecurityAttributes(ctypes.sizeof(_SecurityAttributes), descriptor, False)
        finally:
            _kernel.LocalFree(descriptor)

    def _own_sid() -> str:
        """Return the security identifier of the user of this process."""
        token, size, text = wintypes.HANDLE(), wintypes.DWORD(), wintypes.LPWSTR()
        _check(_security.OpenProcessToken(_kernel.GetCurrentProcess(), TOKEN_QUERY, ctypes.byref(token)))
        try:
            _security.GetTokenInformation(token, TOKEN_USER, None, 0, ctypes.byref(size))
            buffer = ctypes.create_string_buffer(size.value)
            _check(_security.GetTokenInformation(token, TOKEN_USER, buffer, size, ctypes.byref(size)))
        finally:
            _winapi.CloseHandle(token.value or 0)
        sid = ctypes.cast(buffer, ctypes.POINTER(ctypes.c_void_p))[0]  # the first member of TOKEN_USER
        _check(_security.ConvertSidToStringSidW(sid, ctypes.byref(text)))
        try:
            return text.value or ""
        finally:
            _kernel.LocalFree(ctypes.cast(text, ctypes.c_void_p))
