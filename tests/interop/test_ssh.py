"""The commands and the claims of docs/howto/other-channels.md about ssh, against a local sshd."""

import ast
import asyncio
import json
import os
import pwd
import re
import shlex
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("the page is about a POSIX shell at the other end", allow_module_level=True)

from fake_server import scene
from interop.harness import EXAMPLES, NET
from interop.local_sshd import HOST, prepare, program, start
from twopipes import ServerCommand, ServerExited, ShutdownPlan, connect

pytestmark = pytest.mark.interop

PAGE = (EXAMPLES.parent / "docs" / "howto" / "other-channels.md").read_text(encoding="utf-8")
# A server that shows what reached it, and leaves a file behind when it exits.
NOTES = """
import os, pathlib, sys
from twopipes import Server

here = pathlib.Path(__file__).parent
server = Server("notes")


@server.tool
def arguments() -> list[str]:
    return sys.argv[1:]


@server.tool
def token() -> str:
    return os.environ.get("NOTES_TOKEN", "none")


@server.tool(annotations={"readOnlyHint": True})
def pid() -> int:
    return os.getpid()


server.run(unix=sys.argv[2]) if sys.argv[1:2] == ["--unix"] else server.run()
(here / "input_ended").touch()
"""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    made = prepare(tmp_path)
    (tmp_path / "notes.py").write_text(NOTES)
    made.install("notes-server", sys.executable, str(tmp_path / "notes.py"))
    monkeypatch.setenv("PATH", f"{made.ssh}{os.pathsep}{os.environ['PATH']}")
    sshd = start(made)
    yield made
    sshd.terminate()
    sshd.wait(NET)


def command_of_the_page():
    """The arguments of ``connect`` in the table of the page."""
    (arguments,) = re.findall(r'`connect(\("ssh".*?\))`', PAGE)
    return ast.literal_eval(arguments)


async def appears(path):
    while not path.exists():
        await asyncio.sleep(0.02)


async def exits(process):
    with suppress(ProcessLookupError):
        while True:
            os.kill(process, 0)
            await asyncio.sleep(0.02)


@scene
async def test_the_command_of_the_page_reaches_a_server(machine):
    async with connect(*command_of_the_page()) as client:
        assert (await client.call_tool("token")).text == "none"
        assert not client.stray
    assert (machine.folder / "input_ended").exists()  # leaving the block waited for ssh, and ssh for the server


@scene
async def test_a_variable_is_sent_if_the_other_side_accepts_it(machine):
    def server(*options):
        return ServerCommand(["ssh", "-T", *options, HOST, "notes-server"], env={"NOTES_TOKEN": "secret", "NOTES_OTHER": "x"})

    async with connect(server("-o", "SendEnv=NOTES_TOKEN")) as client:
        assert (await client.call_tool("token")).text == "secret"
    async with connect(server()) as client:  # `env=` alone reaches ssh and goes no further
        assert (await client.call_tool("token")).text == "none"


@scene
async def test_the_remote_shell_splits_arguments_that_are_not_quoted(machine):
    words = ["notes-server", "--folder", "/srv/two words"]
    async with connect("ssh", "-T", HOST, *words) as client:
        assert (await client.call_tool("arguments")).structured["result"] == ["--folder", "/srv/two", "words"]
    async with connect("ssh", "-T", HOST, shlex.join(words)) as client:
        assert (await client.call_tool("arguments")).structured["result"] == ["--folder", "/srv/two words"]


@scene
async def test_output_of_bashrc_is_skipped_and_the_advice_of_the_page_prevents_it(machine):
    if Path(pwd.getpwuid(os.getuid()).pw_shell).name != "bash":
        pytest.skip("the login shell is not bash")
    (advice,) = re.findall(r"`(\[\[ .*? return)`", PAGE)
    machine.bashrc.write_text("echo 'Welcome to build-7!'\n")
    async with connect("ssh", "-T", HOST, "notes-server") as client:
        assert [line.excerpt for line in client.stray] == ["Welcome to build-7!"]
        assert (await client.call_tool("token")).text == "none"
    machine.bashrc.write_text(f"{advice}\necho 'Welcome to build-7!'\n")
    async with connect("ssh", "-T", HOST, "notes-server") as client:
        assert not client.stray


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@scene
async def test_a_signal_to_ssh_ends_the_input_of_the_server(machine, number):
    async with connect(*command_of_the_page(), shutdown=ShutdownPlan.patient(NET)) as client:
        server = (await client.call_tool("pid")).structured["result"]
        os.kill(client.pid, number)
        await appears(machine.folder / "input_ended")
    await exits(server)


@scene
async def test_an_unknown_host_key_is_an_error_with_the_message_of_ssh(machine):
    machine.forget_host_key()
    with pytest.raises(ServerExited) as caught:
        await connect(*command_of_the_page())
    assert (caught.value.exit_code, caught.value.stderr[-1]) == (255, "Host key verification failed.")


@scene
async def test_a_server_behind_ssh_is_restarted(machine):
    async with connect(*command_of_the_page()) as client:
        await client.list_tools()  # a tool that is known to change nothing is called again
        before = (await client.call_tool("pid")).structured["result"]
        os.kill(before, signal.SIGKILL)
        after = before
        while after == before:  # the kill may be noticed after the next call
            after = (await client.call_tool("pid")).structured["result"]


def test_doctor_recognises_a_terminal_in_between(machine):
    done = subprocess.run(
        [sys.executable, "-m", "twopipes", "doctor", "--format", "json", "--", "ssh", "-tt", HOST, "notes-server"],
        stdout=subprocess.PIPE,
        check=False,
        timeout=NET * 2,
    )
    assert "echoes-input" in {
        diagnosis["code"] for server in json.loads(done.stdout)["servers"] for diagnosis in server["diagnoses"]
    }


@scene
async def test_ssh_forwards_the_socket_of_a_server(machine, monkeypatch):
    (line,) = re.findall(r"^(ssh -N -L .*?) +#", PAGE, re.MULTILINE)
    here, there = machine.folder / "here.sock", machine.folder / "there.sock"
    words = shlex.split(line.replace("/tmp/notes.sock", str(here)).replace("/run/user/1000/notes.sock", str(there)))
    server = await asyncio.create_subprocess_exec(sys.executable, str(machine.folder / "notes.py"), "--unix", str(there))
    await appears(there)
    forward = await asyncio.create_subprocess_exec(*words)
    try:
        await appears(here)
        async with connect(f"unix:{here}") as client:
            assert (await client.call_tool("token")).text == "none"
        assert stat.S_IMODE(there.stat().st_mode) & 0o077 == 0
    finally:
        for process in (forward, server):
            process.terminate()
            await process.wait()


@scene
async def test_socat_starts_a_server_for_each_connection(machine, monkeypatch):
    (line,) = re.findall(r"^(socat .*)$", PAGE, re.MULTILINE)
    program("socat")
    monkeypatch.setenv("PATH", f"{machine.folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    machine.install("twopipes", sys.executable, "-m", "twopipes")
    path = machine.folder / "notes.sock"
    socat = await asyncio.create_subprocess_exec(*shlex.split(line.replace("/tmp/notes.sock", str(path))), cwd=machine.folder)
    try:
        await appears(path)
        seen = set()
        for _ in range(2):
            async with connect(f"unix:{path}") as client:
                seen.add((await client.call_tool("pid")).structured["result"])
        assert len(seen) == 2
    finally:
        socat.terminate()
        await socat.wait()
