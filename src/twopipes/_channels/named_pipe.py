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
    import contextlib
    import ctypes
    import errno
    import threading
    from collections.abc import Iterator
    from contextlib import suppress
    from ctypes import wintypes
    from typing import Any, Self

    PREFIX = r"\\.\pipe\twopipes-"
    # Bytes in each direction that the system keeps for a slow reader, as in a Linux pipe.
    CAPACITY = 64 * 1024
    # Bytes of the file with the name of a pipe.
    MAX_NAME = 256
    # Seconds for an empty message, which a pipe takes at once.
    EOF_TIMEOUT = 1.0

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

        def shutdown(self, _how: int) -> None:
            """Send EOF to the peer, as a socket does for ``SHUT_WR``."""
            self.shut_write()

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

    def open_pipe(path: str) -> NamedPipe:
        """Connect to the server that listens at a path.

        Raises:
            BlockingIOError: It is about to accept another client; try again.
            FileNotFoundError: There is no such file.
            ConnectionRefusedError: The server that created the file is gone, or the file has another meaning.
            OSError: The pipe cannot be opened.
        """
        name = read_name(path)
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

    def read_name(path: str) -> str:
        """Return the name of the pipe in a file. Raises ``ConnectionRefusedError`` if the file has another meaning."""
        with open(path, "rb") as file:
            name = file.read(MAX_NAME).decode("ascii", "replace")
        if not name.startswith(PREFIX):
            raise ConnectionRefusedError(errno.ECONNREFUSED, "the file does not name a pipe of twopipes")
        return name

    def new_instance(name: str, *, is_first: bool = False) -> NamedPipe:
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

    @contextlib.contextmanager
    def _only_this_user() -> Iterator[_SecurityAttributes]:
        """Yield security attributes that give all rights to this user and none to others."""
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
