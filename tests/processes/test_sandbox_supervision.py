"""A child in a sandbox is started, watched and ended like any other."""

import asyncio
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import textwrap

import pytest

from processes.children import FORKS_A_GRANDCHILD, POLITE, STUBBORN, command, group_of, is_running, line_of, program, run, started
from processes.launching import NET, modern, python, text_of
from processes.sandboxes import BUBBLEWRAP, CODE, LANDLOCK, ROOT, SERVER, descendants, with_every_engine
from twopipes._process.child import Child
from twopipes._process.command import ServerCommand
from twopipes._process.exit_status import ExitStatus
from twopipes._process.sandbox import bubblewrap
from twopipes._process.shutdown import ShutdownPlan, Signal, Wait
from twopipes.errors import StartFailed
from twopipes.settings import Sandbox

# Ignores EOF, and exits on SIGTERM with a code of its own.
GRACEFUL = """
    import signal, sys
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
    print("ready", flush=True)
    while True:
        signal.pause()
"""


def confined(text, engine, **policy):
    return command(text, sandbox=Sandbox(engine=engine, **policy))


@with_every_engine
def test_a_child_exits_on_eof(engine):
    async def body():
        async with started(confined(POLITE, engine)) as child:
            child.channel.write(b"hello\n")
            assert await line_of(child) == "hello"
            report = await child.shut_down()
            assert (report.exit, report.ended_by) == (ExitStatus(code=0), "eof")

    run(body())


@with_every_engine
def test_a_signal_reaches_the_server_which_ends_in_its_own_way(engine):
    async def body():
        async with started(confined(GRACEFUL, engine)) as child:
            assert await line_of(child) == "ready"
            report = await child.shut_down(ShutdownPlan((Signal(signal.SIGTERM), Wait(NET))))
            assert (report.exit, report.ended_by, report.left_behind) == (ExitStatus(code=5), "SIGTERM", False)

    run(body())


@with_every_engine
@pytest.mark.parametrize("text", [STUBBORN, FORKS_A_GRANDCHILD])
def test_everything_in_the_sandbox_is_killed_in_the_end(engine, text):
    async def body():
        async with started(confined(text, engine)) as child:
            await line_of(child)
            members = group_of(child.pid)
            assert child.pid in members
            report = await child.shut_down(ShutdownPlan.default(0.1))
            assert not report.left_behind
            assert not [pid for pid in members if is_running(pid)]

    run(body())


@pytest.mark.parametrize("engine", [BUBBLEWRAP])
def test_the_rest_of_a_sandbox_ends_with_the_server(engine):
    async def body():
        async with started(confined(FORKS_A_GRANDCHILD, engine)) as child:
            await line_of(child)
            inside = descendants(child.pid)
            child.close_stdin()
            await child.wait()
            await child.wait_until_gone(NET)
            assert not [pid for pid in inside if is_running(pid)]

    run(body())


@pytest.mark.parametrize("engine", [BUBBLEWRAP])
def test_a_killed_monitor_leaves_nothing_behind(engine):
    async def body():
        async with started(confined(STUBBORN, engine)) as child:
            await line_of(child)
            inside = descendants(child.pid)
            os.kill(child.pid, signal.SIGKILL)
            assert await child.wait() == ExitStatus(signal=signal.SIGKILL)
            await child.wait_until_gone(NET)
            assert not [pid for pid in inside if is_running(pid)]

    run(body())


@with_every_engine
def test_a_cancelled_shutdown_kills_the_sandbox(engine):
    async def body():
        async with started(confined(STUBBORN, engine)) as child:
            await line_of(child)
            members = group_of(child.pid)
            ending = asyncio.create_task(child.shut_down(ShutdownPlan.default(NET)))
            await asyncio.sleep(0)
            ending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await ending
            assert not [pid for pid in members if is_running(pid)]

    run(body())


OWNER = """
    import asyncio, os, signal, sys
    from twopipes._process.child import Child
    from twopipes._process.command import ServerCommand
    from twopipes.settings import Sandbox

    async def main():
        child = await Child.start(ServerCommand(sys.argv[2:], sandbox=Sandbox(engine=sys.argv[1])))
        await child.channel.read()
        print(child.pid, flush=True)
        sys.stdin.readline()
        os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(main())
"""


@with_every_engine
@pytest.mark.parametrize("text", [GRACEFUL, STUBBORN])
def test_the_sandbox_ends_when_its_owner_is_killed(engine, text):
    words = [sys.executable, "-c", textwrap.dedent(OWNER), engine, *program(text)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        leader = int(owner.stdout.readline())
        members = [os.pidfd_open(pid) for pid in {leader, *group_of(leader)}]
        owner.stdin.write(b"die\n")
        owner.stdin.flush()
        try:
            for fd in members:
                assert select.select([fd], [], [], NET)[0]
        finally:
            for fd in members:
                os.close(fd)


@with_every_engine
def test_standard_error_and_the_folder_are_those_of_the_server(engine, tmp_path):
    async def body():
        text = "import os, sys; print(os.getcwd(), flush=True); sys.exit('it failed')"
        given = command(text, cwd=tmp_path, sandbox=Sandbox(engine=engine))
        async with started(given) as child:
            assert await line_of(child) == str(tmp_path)
            assert await child.wait() == ExitStatus(code=1)
            assert child.stderr.lines() == ["it failed"]

    run(body())


@with_every_engine
def test_a_long_policy_fits(engine, tmp_path):
    """More options than one command line could hold, in arguments of more than 128 KiB together."""
    folders = [tmp_path / f"{'x' * 200}{number}" for number in range(400)]
    for folder in folders:
        folder.mkdir()

    async def body():
        async with started(confined(f"import os; print(os.listdir({str(folders[-1])!r}))", engine, read=folders)) as child:
            assert await line_of(child) == "[]"

    run(body())


# Programs


@with_every_engine
def test_a_script_finds_its_interpreter_and_its_environment(engine, tmp_path):
    """A command of a virtual environment, reached by a link: the link, the script, its interpreter, and what that is made from."""
    environment = tmp_path / "tools" / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    script = environment / "bin" / "tool"
    script.write_text(f"#!{environment}/bin/python\nimport sys\nprint(sys.prefix)\n")
    script.chmod(0o755)
    link = tmp_path / "bin" / "tool"
    link.parent.mkdir()
    link.symlink_to(script)

    async def body():
        given = ServerCommand(["tool"], env={"PATH": str(link.parent)}, cwd="/", sandbox=Sandbox(engine=engine))
        async with started(given) as child:
            assert await line_of(child) == str(environment)

    run(body())


@pytest.mark.parametrize("engine", [LANDLOCK])
def test_a_program_that_cannot_be_executed_is_reported(engine, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/missing/interpreter\n")
    broken.chmod(0o755)

    async def body():
        async with started(ServerCommand([str(broken)], sandbox=Sandbox(engine=engine))) as child:
            assert await child.wait() == ExitStatus(code=126)
            assert "the sandbox could not be set up" in child.stderr.lines()[0]

    run(body())


# A start that fails


def failure(argv=("cat",), **options):
    async def body():
        with pytest.raises(StartFailed) as caught:
            await Child.start(ServerCommand(list(argv), **options))
        return caught.value

    error = asyncio.run(body())
    assert error.reason == "sandbox"
    return str(error)


def test_a_missing_path_is_named(tmp_path):
    wanted = f"Sandbox.write names {tmp_path}/missing, which does not exist; create it, or remove it from the policy"
    assert wanted in failure(cwd=tmp_path, sandbox=Sandbox(write=["missing"]))


def test_a_hidden_program_is_named(tmp_path):
    script = tmp_path / "server.py"
    script.touch()
    argv = [sys.executable, "-X", "dev", str(script)]
    assert f"{script} is hidden from it; add {script}, or its folder, to Sandbox(read=[...])" in failure(
        argv, cwd="/", sandbox=Sandbox()
    )


@pytest.fixture
def _no_engine(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(bubblewrap, "_USUAL_FOLDERS", str(tmp_path))
    monkeypatch.setitem(sys.modules, "py_landlock", None)
    monkeypatch.setattr(sys, "meta_path", [])


@pytest.mark.usefixtures("_no_engine")
@pytest.mark.parametrize("engine", ["auto", "bubblewrap", "landlock"])
def test_without_an_engine_nothing_is_started(engine):
    text = failure([sys.executable, "-c", ""], sandbox=Sandbox(engine=engine))
    assert ("install bubblewrap (apt install bubblewrap" in text) == (engine != "landlock")
    assert ('pip install "twopipes[landlock]"' in text) == (engine != "bubblewrap")


@pytest.mark.usefixtures("_no_engine")
def test_the_complaint_of_a_bubblewrap_that_does_not_work_is_shown(tmp_path):
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    text = failure([sys.executable, "-c", ""], sandbox=Sandbox())
    assert f"{broken} does not work here: No permissions to create a new namespace" in text


def test_the_doctor_explains_a_policy_that_cannot_work(run, tmp_path):
    policy = {"read": [str(tmp_path / "missing")]}
    config = tmp_path / "servers.json"
    config.write_text(json.dumps({"mcpServers": {"one": {"command": sys.executable, "args": ["-V"], "sandbox": policy}}}))
    done = run(python("-m", "twopipes", "doctor", "--config", str(config)))
    text = " ".join(done.stdout.decode().split())
    assert "was not started in its sandbox:" in text
    assert "its policy cannot be enforced here, or hides something that it needs" in text


@with_every_engine
def test_the_program_of_the_page_runs(engine):
    page = ROOT / "docs" / "howto" / "sandbox.md"
    (text,) = re.findall(r'^```python title="confined.py"\n(.*?)^```', page.read_text(), re.DOTALL | re.MULTILINE)
    text = text.replace("network=False", f"network=False, engine={engine!r}")
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "Hello, Ada!\n"


# keep


@pytest.fixture
def short_folder():
    """A folder with a short path, as the path of a Unix socket has a limit."""
    with tempfile.TemporaryDirectory(prefix="tp") as path:
        yield path


@pytest.mark.parametrize("engine", [BUBBLEWRAP])
@pytest.mark.parametrize("share", [False, True])
def test_a_kept_server_is_confined(engine, launch, tmp_path, short_folder, share):
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret")
    folder = tmp_path / "folder"
    folder.mkdir()
    words = [*(["--share"] if share else []), *(f"--sandbox-read={each}" for each in CODE)]
    environment = {"XDG_STATE_HOME": short_folder}
    host = launch(python("-m", "twopipes", "keep", *words, "--", *python(SERVER)), cwd=folder, env=environment)
    found = host.ask(modern(1, "tools/call", name="read", arguments={"path": str(secret)}))
    assert text_of(found).startswith("refused")
    host.finish()
    if share:
        subprocess.run(python("-m", "twopipes", "keep", "stop"), check=True, capture_output=True, env={**os.environ, **environment})
