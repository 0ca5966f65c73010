"""A recorder in a process of its own, so that the recorded wire does not share an interpreter with it.

Encoding and writing take as long as forwarding, and threads of one interpreter take turns, so a recording thread would slow a busy
wire down. Here the thread only passes the entries to the other process.
"""

from __future__ import annotations

import marshal
import os
import sys
import time
from queue import Empty

from twopipes._trace.recorder import Recorder, size_of

assert sys.platform != "win32"
from twopipes._process.helper_process import HelperProcess  # noqa: E402 - see above

TYPE_CHECKING = False  # see twopipes/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from twopipes._trace.format import Header

# Seconds that the first entry of a batch waits for others, so that small messages do not wake the thread too often.
GATHER = 0.01
# Bytes of entries in a batch. A full batch is sent without waiting.
BATCH = 256 * 1024
# Bytes that may wait in the other process; more wait on this side.
MAX_QUEUED_THERE = 8 * 1024 * 1024
# The total wait for a slow disk, as a multiple of the patience.
MAX_WAITS = 4
# Bytes of the length before each batch.
HEAD = 8
READ_SIZE = 1024 * 1024


class TapRecorder(Recorder):
    """A :class:`Recorder` that works in a process of its own. Create it while the program has only one thread.

    ``on_loss`` may be called in each of the two processes. ``patience`` is the number of seconds for :meth:`close` to pass on what
    is left, and then for the other process to write it.
    """

    def __init__(
        self,
        path: str,
        header: Callable[[], Header],
        redact: Iterable[str] = (),
        *,
        on_loss: Callable[[str], object],
        patience: float,
    ) -> None:
        redact = tuple(redact)
        began = time.monotonic()

        def write(fd: int) -> None:
            _WriterProcess(path, header, redact, on_loss=on_loss, began=began).record_all(fd, patience)

        # It reports losses on stderr.
        self._helper = HelperProcess(write, keep_open=[2])
        self._patience = patience
        super().__init__(path, header, redact, on_loss=on_loss)
        self._began = began

    def close(self, timeout: float | None = None) -> bool:
        """Pass on what is queued, wait until it is written, and end. Give up if nothing is written for ``timeout`` seconds."""
        patience = self._patience if timeout is None else timeout
        deadline = time.monotonic() + MAX_WAITS * patience
        self.finish()
        taken = -1
        while self._thread.is_alive() and self._taken > taken and time.monotonic() < deadline:
            taken = self._taken
            self._thread.join(patience)
        is_complete = super().close(0.0)
        # If not everything could be passed on, the disk is stuck and waiting is useless. Otherwise the other process gives up when
        # its time is over, and reports what is missing. After a very short session it may still be starting.
        return self._helper.wait(0.0 if self._abandoned else 2 * patience) and is_complete

    def _write(self) -> None:
        try:
            is_over = False
            while not is_over:
                first = self._queue.get()
                if first is not None and self._put - self._taken < BATCH:
                    time.sleep(GATHER)
                batch = [first, *self._waiting()] if first is not None else [None]
                is_over = batch[-1] is None
                data = marshal.dumps(batch)
                self._helper.send(len(data).to_bytes(HEAD, "little"))
                self._helper.send(data)
                self._taken += sum(size_of(item) for item in batch if item is not None)
        finally:
            self._helper.close_pipe()

    def _waiting(self) -> Iterator[Any]:
        """Yield the queued entries of a batch, up to the end marker."""
        size = 0
        try:
            while size < BATCH:
                item = self._queue.get_nowait()
                yield item
                if item is None:
                    return
                size += size_of(item)
        except Empty:
            return


class _WriterProcess(Recorder):
    """The recorder in the other process."""

    def __init__(self, *arguments: Any, began: float, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._began = began

    def record_all(self, fd: int, patience: float) -> None:
        """Record all batches from the pipe, to its end."""
        for batch in _batches(fd):
            for item in batch:
                if item is None:
                    self.close(patience)
                    return
                self._forward(item)
        self.event("note", reason="the tap was killed")
        self.close(patience)

    def _forward(self, item: Any) -> None:
        # Nothing is lost on this side: if the disk is slow, the other process waits and counts losses.
        while self._put - self._taken > MAX_QUEUED_THERE and self._thread.is_alive():
            time.sleep(GATHER)
        self._put += size_of(item)
        self._queue.put(item)


def _batches(fd: int) -> Iterator[list[Any]]:
    buffer = bytearray()
    while data := os.read(fd, READ_SIZE):
        buffer += data
        while len(buffer) >= HEAD and len(buffer) >= (end := HEAD + int.from_bytes(buffer[:HEAD], "little")):
            yield marshal.loads(memoryview(buffer)[HEAD:end].tobytes())  # noqa: S302 - written by our own parent process
            del buffer[:end]
