"""Which processes of a group are alive, while they fork and exit."""

import sys

import pytest

if sys.platform != "linux":
    pytest.skip("reads /proc", allow_module_level=True)

from twopipes._process import posix


@pytest.fixture
def group(monkeypatch):
    """Return a function: whether a group has living members, for the lists and the states that /proc shows."""

    def is_alive(lists, states):
        found = posix._PosixGroup.__new__(posix._PosixGroup)
        found.pid, found._members = 10, set()
        remaining = iter(lists)
        monkeypatch.setattr(posix.os, "listdir", lambda _: next(remaining))
        monkeypatch.setattr(posix, "_state_of", lambda pid, _: states.get(pid))
        return found._has_living_members()

    return is_alive


def test_a_living_member_is_found_at_once(group):
    assert group([["1", "10", "self"]], {10: b"S"})


def test_zombies_do_not_live(group):
    assert not group([["10", "11"], ["10", "11"]], {10: b"Z", 11: b"X"})


def test_a_group_without_members_is_gone(group):
    assert not group([["1"], ["1"]], {})


def test_a_child_of_a_member_that_exited_during_the_look_is_found(group):
    """10 forked 11 after the list was made, and exited before its state was read."""
    assert group([["10"], ["11"]], {11: b"S"})
    assert group([["10"], ["10", "11"]], {10: b"Z", 11: b"R"})
