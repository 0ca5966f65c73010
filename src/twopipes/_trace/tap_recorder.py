"""A recorder that works in a process of its own, so that what is recorded does not share an interpreter with it.

To cut, encode and write takes as long as to pass on, and threads of one interpreter take turns: a wire that is recorded by a thread
waits for it now and then, and a busy one all the time. Here a thread only hands over what it gets.
"""

from __future__ import annotations

import marshal
import os
import sys
import time
from _queue import Empty

from twopipes._trace.recorder import OVERHEAD, Recorder

assert sys.platform != "win32"
from twopipes._process.helper_process import HelperProcess  # noqa: E402 - see above

TYPE_CHECKING = False  # see twopipes/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from twopipes._trace.format import Header

__all__ = ["TapRecorder"]

# Seconds that the first of several entries waits for the others. A conversation of small messages wakes the thread that often only.
GATHER = 0.01
# Bytes of entries that are handed over at once; where there are so many, nothing waits.
BATCH = 256 * 1024
# Bytes that may wait in the other process; whatever is more waits on this side.
WAITING_THERE = 8 * 1024 * 1024
# Times its patience that a recorder waits in all, for a disk that takes something now and then.
LONGEST = 4
# Bytes before each batch that say how long it is.
HEAD = 8
READ_SIZE = 1024 * 1024


class TapRecorder(Recorder):
    """As :class:`Recorder`, with the work done by a process of its own. To be made while there is one thread only.

    Args:
        path: The file.
        header: As :func:`header_for` makes it.
        redact: Names of members whose values are blanked.
        on_loss: Told, with a sentence, that something is lost: here or in the other process, by each once.
        patience: Seconds that :meth:`close` takes to hand over what is left, and then the other process for the disk.

    Raises:
        OSError: There is no room for one more process.
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

        def write(ear: int) -> None:
            _Writing(path, header, redact, on_loss=on_loss, began=began).all_from(ear, patience)

        # On stderr it says what is lost.
        self._helper = HelperProcess(write, keep_open=[2])
        self._patience = patience
        super().__init__(path, header, redact, on_loss=on_loss)
        self._began = began

    def close(self, timeout: float | None = None) -> bool:
        """Hands over what there is, waits until it is written, and ends. A disk that takes nothing for so long is given up.

        Args:
            timeout: Seconds; the patience unless given.
        """
        patience = self._patience if timeout is None else timeout
        deadline = time.monotonic() + LONGEST * patience
        self.finish()
        taken = -1
        while self._thread.is_alive() and self._taken > taken and time.monotonic() < deadline:
            taken = self._taken
            self._thread.join(patience)
        is_complete = super().close(0.0)
        # What could not be handed over stands behind a disk that takes nothing. Otherwise the other one gives up by itself when its
        # time is over, and says what is missing then; it may be at its first breath, in a session that ended at once.
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
                self._taken += sum(_size(item) for item in batch if item is not None)
        finally:
            self._helper.close_pipe()

    def _waiting(self) -> Iterator[Any]:
        """What is in the queue, up to the last entry of all."""
        size = 0
        try:
            while size < BATCH:
                item = self._queue.get_nowait()
                yield item
                if item is None:
                    return
                size += _size(item)
        except Empty:
            return


class _Writing(Recorder):
    """The recorder in the other process."""

    def __init__(self, *arguments: Any, began: float, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._began = began

    def all_from(self, ear: int, patience: float) -> None:
        """Takes everything that is handed over, to the end."""
        for batch in _batches(ear):
            for item in batch:
                if item is None:
                    self.close(patience)
                    return
                self._forward(item)
        self.event("note", reason="the tap was killed")
        self.close(patience)

    def _forward(self, item: Any) -> None:
        # Nothing is lost on this side: while the disk does not keep up, the other one waits, and counts.
        while self._put - self._taken > WAITING_THERE and self._thread.is_alive():
            time.sleep(GATHER)
        self._put += _size(item)
        self._queue.put(item)


def _size(item: Any) -> int:
    """As a recorder counts it."""
    return OVERHEAD if item[1] == "=" else len(item[2]) + OVERHEAD


def _batches(ear: int) -> Iterator[list[Any]]:
    buffer = bytearray()
    while data := os.read(ear, READ_SIZE):
        buffer += data
        while len(buffer) >= HEAD and len(buffer) >= (end := HEAD + int.from_bytes(buffer[:HEAD], "little")):
            yield marshal.loads(memoryview(buffer)[HEAD:end].tobytes())  # noqa: S302 - of our own making, a moment ago
            del buffer[:end]
