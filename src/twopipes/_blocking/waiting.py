"""What the blocking client and the blocking group share: an async object in the thread of the loop, and calls that wait for it."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar

from twopipes._blocking.callbacks import CallbackThread, Progress
from twopipes._blocking.loop import ClientLease, LoopThread
from twopipes.errors import ClientClosed

P = ParamSpec("P")
T = TypeVar("T")


class Closable(Protocol):
    """An async client or group."""

    async def close(self) -> None:
        """Close it."""


C = TypeVar("C", bound=Closable)


def blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """Turn a method of the async object into one that waits for its result. Signature and docstring are taken over."""
    call: Callable[..., Coroutine[Any, Any, T]] = method

    def wait(self: Waiting, /, *args: Any, **kwargs: Any) -> T:
        progress = None
        if kwargs.get("on_progress") is not None:
            progress = kwargs["on_progress"] = Progress(kwargs["on_progress"])

        async def run() -> T:  # called in the loop, so that a wrong argument fails like any other error
            return await call(self._inner, *args, **kwargs)

        return self._run(run, progress)

    functools.update_wrapper(wait, method)
    return wait


def parameters_of(source: Callable[P, Any]) -> Callable[[Callable[..., T]], Callable[P, T]]:
    """Give a function the parameters of another one, and its description of them."""

    def decorate(function: Callable[..., T]) -> Callable[P, T]:
        own = inspect.signature(function)
        arguments = inspect.getdoc(source) or ""
        arguments = arguments[arguments.index("Args:") :].replace("\n\nAwaiting it raises:", "")
        function.__doc__ = f"{inspect.getdoc(function)}\n\n{arguments}"
        function.__signature__ = inspect.signature(source).replace(return_annotation=own.return_annotation)  # type: ignore[attr-defined]
        return function

    return decorate


def open_in_loop(
    lease: ClientLease,
    open_inner: Callable[[CallbackThread], Coroutine[Any, Any, C]],
    made: Callable[[C, LoopThread, CallbackThread], T],
) -> T:
    """Open an async object in the thread of the loop, and return what `made` makes of it.

    If this thread is interrupted, the object is closed and the lease ends.
    """

    async def open_and_lease(callback_thread: CallbackThread) -> C:
        try:
            inner = await open_inner(callback_thread)
        except BaseException:
            callback_thread.end()
            raise

        async def close() -> None:
            try:
                await inner.close()
            finally:
                callback_thread.end()

        lease.close = close
        return inner

    try:
        loop_thread = LoopThread.acquire(lease)
        callback_thread = CallbackThread(loop_thread.call_back)
        try:
            inner = loop_thread.run(
                lambda: loop_thread.connect(lease, lambda: open_and_lease(callback_thread)),
                unclaimed=lambda _: loop_thread.start_ending(lease),
            )
        except Exception:  # but not KeyboardInterrupt, which must not wait
            callback_thread.join()
            loop_thread.join()
            raise
        return made(inner, loop_thread, callback_thread)
    except BaseException:
        LoopThread.release(lease)
        raise


class Waiting:
    """An async object in the loop, from its opening until it is closed."""

    def __init__(self, inner: Closable, loop_thread: LoopThread, lease: ClientLease, callback_thread: CallbackThread) -> None:
        self._inner: Any = inner
        self._loop_thread = loop_thread
        self._lease = lease
        self._callback_thread = callback_thread

    def __repr__(self) -> str:
        return repr(self._inner)

    def close(self) -> None:
        """Close the connection and shut the server down: close its stdin, wait, then send signals.

        Any thread may call this, any number of times. Calls in progress end with ``ClientClosed``. Ctrl-C does not stop the
        shutdown. In a process that was forked from the one that connected, this does nothing, because the server belongs to the
        parent.
        """
        loop_thread, lease = self._loop_thread, self._lease
        if loop_thread.is_foreign:
            return
        with suppress(ClientClosed):  # it is already closed
            loop_thread.run(lambda: loop_thread.end(lease))
        self._callback_thread.join()
        loop_thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # The attributes are missing if __init__ failed.
        loop_thread, lease = getattr(self, "_loop_thread", None), getattr(self, "_lease", None)
        if loop_thread is None or lease is None or lease.ending is not None:
            return
        if loop_thread.is_foreign or loop_thread.loop.is_closed():
            return
        loop_thread.post(loop_thread.start_ending, lease)
        warnings.warn(f"{self!r} was not closed", ResourceWarning, source=self, stacklevel=2)

    def _run(self, run: Callable[[], Coroutine[Any, Any, T]], progress: Progress | None = None) -> T:
        try:
            result = self._loop_thread.run(run, progress=progress)
        except Exception:  # but not KeyboardInterrupt, which must not wait
            self._callback_thread.catch_up()
            raise
        self._callback_thread.catch_up()  # callbacks for events before the response run before the call returns
        return self._shown(result, progress)

    def _shown(self, result: T, progress: Progress | None) -> T:
        """Return what the caller gets for a result."""
        return result
