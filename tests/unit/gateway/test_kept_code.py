"""A kept server whose watched code does not start: it is started again when the code changes, not by each call."""

import sys
import textwrap

import pytest

from fake_server import scene
from twopipes._gateway.front_call import ClientIdentity
from twopipes._gateway.keeper import KeepSettings, KeptBack
from twopipes._process.command import ServerCommand
from twopipes.errors import ServerExited
from twopipes.types import ClientCapabilities

HOST = ClientIdentity(None, ClientCapabilities())
BROKEN = 'open("starts", "a").write("x"); raise ValueError("a broken edit")'
WORKING = """
    from twopipes import Server
    open("starts", "a").write("x")
    Server("fixed").run()
"""


@pytest.fixture
def edited(tmp_path):
    """Return a function that writes the server, and one that makes a back for it."""
    file = tmp_path / "server.py"

    def write(program):
        file.write_text(textwrap.dedent(program))

    def back(watch=(str(file),)):
        command = ServerCommand([sys.executable, str(file)], cwd=tmp_path, environment="inherit")
        return KeptBack(command, KeepSettings(has_manifest=False, watch=watch))

    return write, back


def starts(tmp_path):
    return len((tmp_path / "starts").read_text())


async def failure_of(back):
    with pytest.raises(ServerExited) as failed:
        await back.ready(HOST)
    return str(failed.value)


@scene
async def test_each_call_gets_the_traceback_and_none_starts_the_same_code_again(edited, tmp_path):
    write, make = edited
    write(BROKEN)
    back = make()
    assert "ValueError: a broken edit" in await failure_of(back)
    before = starts(tmp_path)
    for _ in range(3):
        text = await failure_of(back)
        assert "ValueError: a broken edit" in text
        assert "no watched file has changed since; save one of them to start it again" in text
    assert starts(tmp_path) == before
    await back.close()


@scene
async def test_a_changed_file_starts_the_server_again(edited):
    write, make = edited
    write(BROKEN)
    back = make()
    await failure_of(back)
    write(BROKEN.replace("broken edit", "second attempt"))
    back.files_changed(["server.py"])
    assert "ValueError: a second attempt" in await failure_of(back)
    write(WORKING)
    back.files_changed(["server.py"])
    assert (await back.ready(HOST)).server_info.name == "fixed"
    assert (await back.ready(HOST)).server_info.name == "fixed"
    await back.close()


@scene
async def test_keep_stop_lets_the_next_call_start_it(edited):
    write, make = edited
    write(BROKEN)
    back = make()
    await failure_of(back)
    write(WORKING)
    assert "a broken edit" in await failure_of(back)
    await back.stop()
    assert (await back.ready(HOST)).server_info.name == "fixed"
    await back.close()


@scene
async def test_a_server_that_is_not_watched_is_started_by_each_call(edited, tmp_path):
    write, make = edited
    write(BROKEN)
    back = make(watch=())
    await failure_of(back)
    before = starts(tmp_path)
    assert "not restarted" not in await failure_of(back)
    assert starts(tmp_path) > before
    await back.close()
