"""The options that the commands share: durations, formats, renamed options, and the help."""

from argparse import ArgumentTypeError

import pytest

from twopipes._cli import COMMANDS, main
from twopipes._cli.command_parser import duration, milliseconds, positive_duration
from twopipes._tools.exit_codes import EXIT_CODES


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5", 5.0), ("0", 0.0), ("0.5", 0.5), (".5", 0.5), ("5s", 5.0), ("500ms", 0.5), ("2m", 120.0), ("1.5m", 90.0), ("1h", 3600.0)],
)
def test_a_duration_is_a_number_with_or_without_a_unit(text, seconds):
    assert duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "soon", "-1", "nan", "inf", "1e3", "5 s", "5d", "s", "1_000"])
def test_anything_else_is_not_a_duration(text):
    with pytest.raises(ArgumentTypeError, match=r"is not a duration, such as 5, 0\.5s or 2m"):
        duration(text)


def test_a_timeout_must_be_more_than_zero():
    assert positive_duration("2m") == 120.0
    with pytest.raises(ArgumentTypeError, match="'0s' is not a duration above 0"):
        positive_duration("0s")


@pytest.mark.parametrize(("text", "seconds"), [("500", 0.5), ("500ms", 0.5), ("2s", 2.0)])
def test_a_number_without_a_unit_may_be_in_milliseconds(text, seconds):
    assert milliseconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("command", ["list", "call add", "read a://b", "prompt x", "doctor", "replay f", "check"])
@pytest.mark.parametrize("option", ["--output", "-o"])
def test_the_old_name_of_format_is_an_error_that_names_the_new_one(command, option, capsys):
    assert main([*command.split(), option, "json", "--", "server"]) == 2
    assert capsys.readouterr() == ("", f"Error: {option} was renamed; write --format json\n")


def test_the_old_name_of_a_timeout_of_the_doctor_is_an_error_that_names_the_new_one(capsys):
    assert main(["doctor", "--patience", "5", "--", "server"]) == 2
    assert capsys.readouterr() == ("", "Error: --patience was renamed; write --timeout 5\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_fits_into_80_columns_and_has_examples_and_exit_codes(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main([command, "--help"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert [line for line in out.splitlines() if len(line) > 80] == []
    assert "\nexamples:\n" in out
    assert "\nexit codes:\n" in out


def test_every_command_has_exit_codes():
    assert list(EXIT_CODES) == list(COMMANDS)
