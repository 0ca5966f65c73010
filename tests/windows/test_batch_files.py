"""Batch files, as `npx` is one: the program behind them gets each argument as it was given."""

import asyncio
import json
import os
import sys

import pytest

from systems import not_under_wine
from twopipes._process.child import Child
from twopipes._process.command import ServerCommand
from twopipes._process.shutdown import ShutdownPlan
from twopipes.errors import StartFailed

if sys.platform == "win32":
    from processes.windows_processes import ends, is_running

NET = 60
PLAIN = ["-y", "two words", "", "a,b;c=d", "größe", r"C:\data\x.txt", "x=1", "(x)", "wow!"]
DANGEROUS = [
    *("a&echo injected", "a&&b", "a|b", "<c>", "^d", "^^", "^&", "x ^", "!PATH!", "a\tb"),
    *('say "hi"', '"&echo injected', "' & '", "ends\\", 'a\\"b', "\\\\", '\\\\"'),
]


@pytest.fixture
def tool(write):
    """A batch file that starts Python with all of its arguments, as npx.cmd starts node."""
    program = write("import json, sys; print(json.dumps(sys.argv[1:]))", "show.py")
    return write(f'@echo off\r\n"{sys.executable}" "{program}" %*\r\n', "tool.cmd")


def arguments_seen(tool, words):
    """Return what the program behind a batch file gets."""

    async def scenario():
        command = ServerCommand(["tool", *words], env={"PATH": str(tool.parent), "PYTHONUTF8": "1"}, environment="inherit")
        child = await Child.start(command)
        output = b""
        while chunk := await child.channel.read():
            output += chunk
        await child.shut_down()
        assert output, child.stderr.lines()
        return json.loads(output)

    async def bounded():
        async with asyncio.timeout(NET):
            return await scenario()

    return asyncio.run(bounded())


def test_harmless_arguments_arrive(tool):
    assert arguments_seen(tool, PLAIN) == PLAIN


def test_dangerous_arguments_arrive_and_start_nothing(tool):
    assert arguments_seen(tool, DANGEROUS) == DANGEROUS


@not_under_wine("its cmd.exe does not know substrings of variables, such as %cd:~,%")
@pytest.mark.parametrize("word", ["%PATH%", "100%", "a%b%c"])
def test_a_percent_sign_arrives(tool, word):
    assert arguments_seen(tool, [word]) == [word]


@pytest.mark.parametrize("folder", ["Program Files (x86)", "a & b", "x^y!z", "größe"])
def test_the_folder_of_a_batch_file_can_have_any_name(tool, tmp_path, folder):
    (tmp_path / folder).mkdir()
    moved = tool.rename(tmp_path / folder / tool.name)
    assert arguments_seen(moved, ["two words", "a&b"]) == ["two words", "a&b"]


def test_a_process_that_outlives_its_batch_file_is_ended(write):
    program = write("import os, threading; print(os.getpid(), flush=True); threading.Event().wait()", "stays.py")
    tool = write(f'@echo off\r\nstart /b "" "{sys.executable}" "{program}"\r\n', "tool.cmd")

    async def scenario():
        async with asyncio.timeout(NET):
            child = await Child.start(ServerCommand([str(tool)], environment="inherit"))
            pid = int(await child.channel.read())
            assert (await child.wait()).code == 0
            assert is_running(pid)
            report = await child.shut_down(ShutdownPlan.at_once())
            assert not report.left_behind
            assert ends(pid, NET)

    asyncio.run(scenario())


def test_a_line_break_is_refused(tool):
    command = ServerCommand([str(tool), "a\nb"])
    with pytest.raises(StartFailed, match="no batch file can get the line break"):
        command.resolve()


def test_the_extension_is_found(tool):
    command = ServerCommand(["tool"], env={"PATH": str(tool.parent)})
    assert os.path.normcase(command.resolve()) == os.path.normcase(tool)
