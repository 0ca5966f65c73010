"""`twopipes replay`: a usage error is one line, and no server is started."""

import pytest

from processes.launching import call
from processes.recordings import handshake, trace_of
from twopipes._cli import main


@pytest.fixture
def two_calls(tmp_path):
    return trace_of(tmp_path / "two.jsonl", *handshake(), (">", call(1, "first")))


@pytest.fixture
def replay(capsys):
    def replay(*arguments):
        code = main(["replay", *arguments])
        return code, *capsys.readouterr()

    return replay


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "the following arguments are required: FILE"),
        (["{two}"], "no server given"),
        (["{two}", "--"], "no command after --"),
        (["{two}", "--timeout", "soon", "--", "true"], "'soon' is not a duration"),
        (["{two}", "--unix", "/a", "--tcp", "b:1"], "each name a server"),
        (["{two}", "--connection", "5", "--", "true"], "has no connection 5; it has 0"),
        (["nowhere.jsonl", "--", "true"], "nowhere.jsonl cannot be read: No such file or directory"),
        (["{empty}", "--", "true"], "contains no request of a client"),
        (["{no_trace}", "--", "true"], "is not a trace"),
        (["{two}", "--", "no-such-command-anywhere"], "no-such-command-anywhere"),
        (["{two}", "--unix", "/nowhere/socket"], "cannot connect to unix:/nowhere/socket"),
    ],
)
def test_a_mistake_is_one_line(replay, two_calls, tmp_path, arguments, said):
    (tmp_path / "no_trace").write_text("hello\n")
    files = {"two": two_calls, "empty": trace_of(tmp_path / "empty.jsonl"), "no_trace": tmp_path / "no_trace"}
    code, out, err = replay(*(argument.format(**files) for argument in arguments))
    assert (code, out) == (2, "")
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    assert said in err


def test_the_help_has_options_and_exit_codes(capsys):
    assert main(["replay", "--help"]) == 0
    out, _ = capsys.readouterr()
    assert "usage: twopipes replay FILE" in out
    assert "exit codes:" in out
    assert "--ignore NAME" in out
