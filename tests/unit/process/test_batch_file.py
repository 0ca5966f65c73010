"""The quoting of arguments for cmd.exe, which runs batch files."""

import pytest

from twopipes._process.batch_file import argument_refused, batch_command_line, is_batch_file

NPX = r"C:\Program Files\nodejs\npx.cmd"


@pytest.mark.parametrize(
    ("word", "quoted"),
    [
        ("-y", "-y"),
        ("@scope/server@1.2", "@scope/server@1.2"),
        (r"C:\data\x.txt", r"C:\data\x.txt"),
        ("größe", "größe"),
        ("", '""'),
        ("two words", '"two words"'),
        ("a&calc", '"a&calc"'),
        ("a|b<c>d^e", '"a|b<c>d^e"'),
        ("(x)", '"(x)"'),
        ("a,b;c=d", '"a,b;c=d"'),
        ("wow!", '"wow!"'),
        ("a\tb", '"a\tb"'),
        ('say "hi"', '"say ""hi"""'),
        # A quote would end the quotes, and what follows would be a command.
        ('"&calc', '"""&calc"'),
        ("%PATH%", '"%%cd:~,%PATH%%cd:~,%"'),
        # The program behind the batch file reads backslashes before a quote in pairs.
        ("ends\\", '"ends\\\\"'),
        ('a\\"b', '"a\\\\""b"'),
    ],
)
def test_an_argument(word, quoted):
    assert batch_command_line([NPX, word]) == f'cmd.exe /e:ON /v:OFF /d /c ""{NPX}" {quoted}"'


def test_a_batch_file_without_arguments():
    assert batch_command_line([NPX]) == f'cmd.exe /e:ON /v:OFF /d /c ""{NPX}""'


def test_a_percent_sign_in_the_path_of_the_file():
    line = batch_command_line([r"C:\100% %PATH%\run.bat", "-y"])
    assert line == r'cmd.exe /e:ON /v:OFF /d /c ""C:\100%%cd:~,% %%cd:~,%PATH%%cd:~,%\run.bat" -y"'


@pytest.mark.parametrize("word", ["a\nb", "a\rb"])
def test_a_line_break_is_refused(word):
    assert argument_refused([NPX, "-y", word]) == (
        rf"C:\Program Files\nodejs\npx.cmd is a batch file, and no batch file can get the line break in {word!r}; call its program"
    )
    assert argument_refused([NPX, "-y"]) is None
    assert argument_refused(["node.exe", word]) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [("npx.cmd", True), ("RUN.BAT", True), ("run.bat.", True), ("run.cmd . ", True), ("node.exe", False), ("cmd", False)],
)
def test_which_files_cmd_runs(name, expected):
    assert is_batch_file(name) is expected
