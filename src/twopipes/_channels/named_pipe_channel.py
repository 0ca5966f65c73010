"""The channel over a named pipe, and the pipe that accepts connections; see :mod:`.named_pipe`."""

from __future__ import annotations

import sys

if sys.platform == "win32":
    import _winapi
    import asyncio
    import ctypes
    import errno
    import os
    import secrets
    import threading
    from collections.abc import Iterator
    from contextlib import contextmanager, suppress
    from ctypes import wintypes

    from twopipes._channels.base import HIGH_WATER, LOW_WATER
    from twopipes._channels.halves import TwoHalves
    from twopipes._channels.named_pipe import PREFIX, NamedPipe, new_instance, read_name
    from twopipes._channels.threads import ThreadSink, ThreadSource
    from twopipes.errors import ListenFailed

    # Seconds. The mutex is held for a few system calls only; after this time something is wrong.
    PATIENCE = 5.0
    # Seconds without accepting after the system could not create another pipe, or wait for a client.
    PAUSE = 0.5
    # Seconds to wait for a thread that is about to end. It normally takes microseconds.
    JOIN_TIMEOUT = 1.0

    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    _kernel.CreateMutexW.restype = wintypes.HANDLE
    _kernel.CreateMutexW.argtypes = (ctypes.c_void_p, wintypes.BOOL, wintypes.LPCWSTR)
    _kernel.ReleaseMutex.argtypes = (wintypes.HANDLE,)

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

    class PipeAcceptor:
        """A pipe that accepts connections, and the file with its name. A daemon thread waits for clients."""

        def __init__(self, path: str) -> None:
            self._path = path
            self._name = PREFIX + secrets.token_hex(16)
            self._loop = asyncio.get_running_loop()
            self._accepted: asyncio.Queue[NamedPipe | OSError] = asyncio.Queue()
            self._closed = threading.Event()
            self._waiting = new_instance(self._name, is_first=True)
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
                if read_name(self._path) == self._name:
                    os.unlink(self._path)

        def _accept_all(self) -> None:
            with suppress(OSError):  # the listener was closed while the system could not create another end
                # In this order: close() wakes the end that it finds here.
                while not self._closed.is_set():
                    try:
                        if not self._waiting.wait_for_client():
                            break
                        found: NamedPipe | OSError = self._waiting
                    except OSError as error:
                        found = error
                    # The next end first: a name without an end could be taken by another program.
                    ended, self._waiting = self._waiting, self._next_instance()
                    is_posted = self._post(found)
                    if isinstance(found, OSError):
                        ended.close()
                        self._closed.wait(PAUSE)
                    elif not is_posted:
                        ended.close()
                        break
            self._waiting.close()

        def _next_instance(self) -> NamedPipe:
            """Create the end for the next client. If the system has no resources left, try again until the listener is closed."""
            while True:
                try:
                    return new_instance(self._name)
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
            found = read_name(path)
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

    @contextmanager
    def _locked() -> Iterator[None]:
        """Exclude other servers of this session that create or remove the file of a pipe."""
        mutex: int = _kernel.CreateMutexW(None, False, r"Local\twopipes-listen")
        if not mutex:
            raise ctypes.WinError(ctypes.get_last_error())
        try:
            if _winapi.WaitForSingleObject(mutex, int(PATIENCE * 1000)) == _winapi.WAIT_TIMEOUT:
                raise OSError(errno.EAGAIN, "another process has been starting a server for too long")
            try:
                yield
            finally:
                _kernel.ReleaseMutex(mutex)
        finally:
            _winapi.CloseHandle(mutex)
