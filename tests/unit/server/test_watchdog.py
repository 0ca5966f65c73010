"""Who is named when the event loop is blocked, and how."""

import asyncio
import os
import sys
import threading
from pathlib import Path

from twopipes._channels.stdout_guard import format_place
from twopipes._server.loop_watchdog import Watchdog, _culprit


def test_whoever_blocks_the_loop_is_named_as_the_guard_names_a_print(monkeypatch):
    folder, name = os.path.split(__file__)
    monkeypatch.chdir(folder)
    named = threading.Event()
    said = []

    def say(text):
        said.append(text)
        named.set()

    async def block():
        watchdog = Watchdog(0.01, say)
        assert named.wait(60)  # which blocks
        watchdog.stop()

    asyncio.run(block())
    assert said[0].startswith(f"Warning: block at {name}:")


def test_whoever_has_started_the_loop_does_not_block_it():
    """If the machine or the library is slow, the author's call of run() is not the cause."""
    loop = asyncio.new_event_loop()
    named = []

    def look():
        named.append(_culprit(sys._getframe(1)))  # the caller of this: the loop, and then this test
        loop.stop()

    loop.call_soon(look)
    loop.run_forever()
    loop.close()
    assert named == [None]


def test_a_place_is_seen_from_the_folder_that_the_program_runs_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert format_place(str(tmp_path / "a" / "server.py"), 7) == f"{Path('a', 'server.py')}:7"
    assert format_place(str(tmp_path.parent / "server.py"), 7) == f"{tmp_path.parent / 'server.py'}:7"
