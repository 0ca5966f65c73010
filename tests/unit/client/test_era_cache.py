"""The cache of eras (DE-07), in memory and in a file."""

import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from twopipes import ServerCommand
from twopipes._client.era_cache import PROCESS_WIDE, EraCache, EraRecord
from twopipes._process.user_files import state_path

MODERN = EraRecord("modern", "2026-07-28", "answered")
LEGACY = EraRecord("legacy", "2025-11-25", "silent")
WEEK = 7 * 24 * 3600.0
on_posix = pytest.mark.skipif(sys.platform == "win32", reason="made of POSIX files")


class Clock:
    """A wall clock that the test moves."""

    def __init__(self):
        self.now = 1_800_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "verdicts.json"


@pytest.fixture(params=["memory", "file"])
def memory(request, path, clock):
    return EraCache(None if request.param == "memory" else path, clock=clock, max_entries=3)


# In memory and in a file


def test_an_unknown_server_has_no_record(memory):
    assert memory.recall("a") is None


def test_a_record_is_kept_until_it_is_replaced(memory):
    """DE-07."""
    memory.remember("a", LEGACY)
    memory.remember("b", MODERN)
    assert (memory.recall("a"), memory.recall("b")) == (LEGACY, MODERN)
    memory.remember("a", MODERN)
    assert memory.recall("a") == MODERN


def test_a_forgotten_record_is_gone(memory):
    """DE-07."""
    memory.remember("a", LEGACY)
    memory.forget("a")
    memory.forget("never met")
    assert memory.recall("a") is None
    memory.remember("a", MODERN)
    assert memory.recall("a") == MODERN


def test_a_server_is_judged_anew_after_a_week(memory, clock):
    memory.remember("a", LEGACY)
    clock.now += WEEK - 1
    assert memory.recall("a") == LEGACY
    clock.now += 1
    assert memory.recall("a") is None


def test_a_record_from_the_future_is_ignored(memory, clock):
    memory.remember("a", LEGACY)
    clock.now -= 10 * WEEK
    assert memory.recall("a") is None
    memory.remember("a", MODERN)
    assert memory.recall("a") == MODERN


def test_a_clock_that_was_set_back_does_not_restore_an_old_record(memory, clock):
    memory.remember("a", LEGACY)
    clock.now -= 3600
    memory.remember("a", MODERN)
    assert memory.recall("a") == MODERN
    memory.forget("a")
    assert memory.recall("a") is None


def test_the_one_that_was_judged_first_is_forgotten_first(memory, clock):
    for name in "abcd":
        memory.remember(name, LEGACY)
        clock.now += 1
    assert [memory.recall(name) for name in "abcd"] == [None, LEGACY, LEGACY, LEGACY]


def test_many_threads_do_not_get_in_each_others_way(path):
    memory = EraCache(path)
    begin = threading.Barrier(8)
    failures = []

    def work(name):
        try:
            begin.wait(60)
            for _ in range(20):
                memory.remember(name, LEGACY)
                assert memory.recall(name) == LEGACY
                memory.forget(name)
                assert memory.recall(name) is None
            memory.remember(name, MODERN)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(str(number),)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert [EraCache(path).recall(str(number)) for number in range(8)] == [MODERN] * 8


def test_the_default_cache_has_no_file():
    assert PROCESS_WIDE.path is None


# In a file


def test_another_process_reads_the_records_of_this_one(path):
    """DE-07."""
    EraCache(path).remember("a", LEGACY)
    program = (
        "import sys, pathlib\nfrom twopipes._client.era_cache import EraCache\n"
        "memory = EraCache(pathlib.Path(sys.argv[1]))\nprint(memory.recall('a').probed)\nmemory.forget('a')"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "silent\n"
    assert EraCache(path).recall("a") is None


def test_two_caches_of_one_file_keep_each_others_records(path):
    one, other = EraCache(path), EraCache(path)
    one.remember("a", LEGACY)
    other.remember("b", MODERN)
    assert (one.recall("b"), other.recall("a")) == (MODERN, LEGACY)
    other.remember("a", MODERN)
    assert one.recall("a") == MODERN


def test_the_file_contains_hashes_and_eras_and_nothing_of_the_command(path, clock):
    identity = ServerCommand(["server", "--token", "secret"]).identity()
    EraCache(path, clock=clock).remember(identity, LEGACY)
    assert json.loads(path.read_text()) == {
        "format": 1,
        "verdicts": {
            identity: {"learnt": clock.now, "verdict": {"era": "legacy", "revision": "2025-11-25", "probed": "silent"}},
        },
    }


def test_nothing_is_written_before_there_is_something_to_write(path):
    assert EraCache(path).recall("a") is None
    assert not path.parent.exists()


@on_posix
def test_only_the_user_can_read_the_file_and_no_draft_is_left(path):
    memory = EraCache(path)
    memory.remember("a", LEGACY)
    memory.remember("b", LEGACY)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [each.name for each in path.parent.iterdir()] == ["verdicts.json"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"{",
        b"[]",
        b"null",
        b'{"format":2,"verdicts":{"a":{"learnt":1.8e9,"verdict":{"era":"legacy","revision":"x","probed":"silent"}}}}',
        b'{"format":1,"verdicts":{"a":{"learnt":1.8e9,"verdict":{"era":"stone","revision":"x","probed":"silent"}}}}',
        b'{"format":1,"verdicts":{"a":{"learnt":"long ago"}}}',
        b"[" * 500_000,
        b" " * 2_000_000 + b'{"format":1,"verdicts":{}}',
    ],
    ids=range(10),
)
def test_a_damaged_file_is_an_empty_one_and_is_replaced(path, clock, content):
    path.parent.mkdir()
    path.write_bytes(content)
    path.chmod(0o600)
    memory = EraCache(path, clock=clock)
    assert memory.recall("a") is None
    memory.remember("a", MODERN)
    assert EraCache(path, clock=clock).recall("a") == MODERN


@on_posix
def test_a_file_that_others_may_write_is_not_believed(path, clock):
    EraCache(path, clock=clock).remember("a", LEGACY)
    path.chmod(0o666)
    memory = EraCache(path, clock=clock)
    assert memory.recall("a") is None
    memory.remember("a", MODERN)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def a_folder(path):
    path.mkdir(parents=True)


def a_named_pipe(path):
    path.parent.mkdir()
    os.mkfifo(path, 0o600)


def a_file_in_the_place_of_the_folder(path):
    path.parent.write_text("in the way")


def a_circle_of_links(path):
    path.parent.symlink_to(path.parent)


@on_posix
@pytest.mark.parametrize("make", [a_folder, a_named_pipe, a_file_in_the_place_of_the_folder, a_circle_of_links])
def test_a_path_that_is_not_a_file_only_prevents_persistence(path, make):
    make(path)
    descriptors = set(Path("/dev/fd").iterdir())
    memory = EraCache(path)
    assert memory.recall("a") is None
    memory.remember("a", LEGACY)
    assert memory.recall("a") == LEGACY
    memory.forget("a")
    assert memory.recall("a") is None
    assert set(Path("/dev/fd").iterdir()) == descriptors
    assert not list(path.parent.parent.glob("**/verdicts.json.*"))


@pytest.mark.parametrize("name", ["nul\0", "x" * 1_000])
def test_a_path_that_cannot_be_one_costs_nothing_but_the_persistence(tmp_path, name):
    memory = EraCache(tmp_path / name)
    memory.remember("a", LEGACY)
    assert memory.recall("a") == LEGACY


def test_a_record_that_cannot_be_deleted_from_the_file_is_still_forgotten(path, monkeypatch):
    """DE-07."""
    memory = EraCache(path)
    memory.remember("a", LEGACY)

    def refuse(*_):
        raise PermissionError("read-only")

    monkeypatch.setattr(os, "replace", refuse)
    memory.forget("a")
    assert memory.recall("a") is None
    assert EraCache(path).recall("a") == LEGACY
    assert [each.name for each in path.parent.iterdir()] == ["verdicts.json"]


def test_an_identity_that_json_cannot_express_is_remembered_in_memory(path):
    memory = EraCache(path)
    memory.remember("\ud800", LEGACY)
    assert memory.recall("\ud800") == LEGACY


# Names and places


@on_posix
@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({"XDG_STATE_HOME": "", "HOME": "{tmp}"}, ".local/state/twopipes"),
        ({"XDG_STATE_HOME": "relative", "HOME": "{tmp}"}, ".local/state/twopipes"),
        ({"XDG_STATE_HOME": "{tmp}/x"}, "x/twopipes"),
    ],
)
def test_the_file_lies_in_the_users_state_folder(variables, place, monkeypatch, tmp_path):
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(tmp=tmp_path))
    assert state_path() == str(tmp_path / place)
    assert EraCache.default_path() == tmp_path / place / "verdicts.json"


def test_a_user_without_a_home_folder_has_no_file(monkeypatch):
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # as for a user without a home folder
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    assert EraCache.default_path() is None
