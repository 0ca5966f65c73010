"""The command line of ``twopipes keep``."""

import pytest

from twopipes._cli import main
from twopipes._cli.keep import KeepOptions


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([], "no server given; put its command after --."),
        (["--"], "no server given; put its command after --."),
        (["--", ""], "no server given; put its command after --."),
        (["python", "server.py"], "unknown argument python; put the command of the server after --."),
        (["--idle", "--", "x"], "--idle needs a value."),
        (["--idle", "soon", "--", "x"], "--idle: 'soon' is not a duration, such as 5, 0.5s or 2m"),
        (["--idle", "0", "--", "x"], "--idle: '0' is not a duration above 0"),
        (["--lasy", "--", "x"], "unknown option --lasy."),
        (["--sandbox-read", "/missing", "--", "x"], "--sandbox-read: /missing does not exist; create it, or remove the option"),
        (["--log", "/missing/folder/log", "--", "x"], "--log: /missing/folder/log cannot be written: No such file or directory"),
    ],
)
def test_a_mistake_is_explained_on_one_line(capsys, words, error):
    assert main(["keep", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"Error: {error}")


def test_the_options_are_read():
    options = KeepOptions({"--lazy": [], "--idle": ["1h", "10m"], "--no-manifest": [], "--trace": ["t.jsonl"]})
    assert (options.is_lazy, options.idle, options.has_manifest, options.trace, options.log) == (
        True,
        600.0,
        False,
        "t.jsonl",
        None,
    )


def test_by_default_the_server_starts_at_once_stays_and_has_a_manifest():
    options = KeepOptions({})
    assert (options.is_lazy, options.idle, options.has_manifest, options.trace, options.log) == (False, None, True, None, None)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"--lazy": []}, None),
        ({"--sandbox": []}, {"read": [], "write": [], "network": False}),
        ({"--sandbox-network": []}, {"read": [], "write": [], "network": True}),
        ({"--sandbox-read": ["/usr", "/"]}, {"read": ["/usr", "/"], "write": [], "network": False}),
        ({"--sandbox-write": ["/usr/../usr"]}, {"read": [], "write": ["/usr"], "network": False}),
    ],
)
def test_each_option_of_the_sandbox_implies_it(given, expected):
    assert KeepOptions(given).sandbox == expected


def test_the_help_fits_a_terminal(capsys):
    assert main(["keep", "--help"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
