"""The command line: its commands, its help and its version."""

import subprocess
import sys
from importlib.metadata import version

import pytest

from twopipes._cli import main


@pytest.mark.parametrize("words", [["--version"], ["-V"]])
def test_the_version(words, capsys):
    assert main(words) == 0
    assert capsys.readouterr() == (f"twopipes {version('twopipes')}\n", "")


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_the_commands(words, capsys):
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert out.startswith("usage: twopipes COMMAND")
    assert "run FILE[:NAME]" in out
    assert err == ""


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["server.py", "--help"]])
def test_the_help_of_run_has_its_options_examples_and_exit_codes(words, capsys):
    assert main(["run", *words]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("usage: twopipes run FILE[:NAME]")
    for part in ("--unix PATH ", "--tcp HOST:PORT ", "--trace FILE ", "ARGUMENT ...", "examples:\n", "exit codes:\n"):
        assert part in out.partition("\n")[2]
    assert err == ""


@pytest.mark.parametrize("words", [["fly"], ["--fly"], ["fly", "--help"]])
def test_a_command_that_does_not_exist(words, capsys):
    assert main(words) == 2
    assert capsys.readouterr() == ("", f"Error: unknown command {words[0]!r}; see twopipes --help\n")


def test_the_default_arguments_are_those_of_the_process(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["twopipes", "--version"])
    assert main() == 0
    assert capsys.readouterr().out.startswith("twopipes ")


def test_the_module_is_the_command():
    """`python -m twopipes` runs the same command."""
    done = subprocess.run([sys.executable, "-m", "twopipes", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"twopipes {version('twopipes')}\n"
    failed = subprocess.run([sys.executable, "-m", "twopipes", "fly"], capture_output=True, text=True, check=False)
    assert (failed.returncode, failed.stdout) == (2, "")
