"""When a child may be tied to our life, and when not."""

import sys
import threading

import pytest

from twopipes.process import lifeline as module
from twopipes.process.lifeline import lifeline

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has this")


@pytest.fixture
def setpriv(monkeypatch):
    monkeypatch.setattr(module, "_setpriv", lambda: "/usr/bin/setpriv")


def in_a_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.usefixtures("setpriv")
def test_a_program_is_started_through_setpriv():
    assert lifeline(sys.executable) == ("/usr/bin/setpriv", "--pdeathsig", "TERM", "--")


@pytest.mark.usefixtures("setpriv")
def test_a_thread_that_may_end_before_the_program_ties_nobody():
    assert in_a_thread(lambda: lifeline(sys.executable)) == ()
    assert in_a_thread(lambda: lifeline(sys.executable, lasting_thread=True)) != ()


@pytest.mark.usefixtures("setpriv")
@pytest.mark.parametrize(
    ("content", "is_tied"),
    [
        (b"#!/bin/sh\n", True),
        (b"#! /bin/sh -e\n", True),
        (b"#!/no/such/interpreter\n", False),
        (b"#!/bin/sh\r\n", False),  # saved by an editor of another system
        (b"#! \t/bin/sh -e\n", True),
        (b"#!\n", False),
        (b"echo a script without a first line\n", False),
        (b"", False),
        (b"\x7fELF of another processor", False),
    ],
)
def test_what_the_system_may_refuse_is_started_directly(tmp_path, content, is_tied):
    """So that the refusal is an error of ours and not a complaint of setpriv."""
    path = tmp_path / "program"
    path.write_bytes(content)
    assert bool(lifeline(str(path))) == is_tied


@pytest.mark.usefixtures("setpriv")
def test_a_program_that_cannot_be_read_is_started_directly(tmp_path):
    assert lifeline(str(tmp_path / "gone")) == ()


def test_without_a_setpriv_that_knows_how_there_is_no_lifeline(monkeypatch, tmp_path):
    ignorant = tmp_path / "setpriv"
    ignorant.write_text("#!/bin/sh\nexit 1\n")
    ignorant.chmod(0o755)
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    monkeypatch.setattr(module, "PLACES", (str(tmp_path / "gone"), str(broken), str(ignorant)))
    module._setpriv.cache_clear()
    try:
        assert lifeline(sys.executable) == ()
    finally:
        module._setpriv.cache_clear()
