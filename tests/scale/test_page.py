"""The page and the files that the tests run are the same."""

import asyncio
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from scale.raw_client import answer, ask, raw_client
from scale.services import FILES, PAGE, Service, accepts, free_port

BLOCKS = dict(re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```$', PAGE.read_text(), re.DOTALL | re.MULTILINE))


@pytest.mark.parametrize("name", sorted(path.name for path in FILES.iterdir() if path.is_file()))
def test_the_page_shows_the_file_as_it_is(name):
    assert BLOCKS[name] == (FILES / name).read_text()


def test_the_page_shows_no_other_file():
    assert BLOCKS.keys() == {path.name for path in FILES.iterdir() if path.is_file()}


@pytest.mark.scale
def test_the_commands_of_the_page_start_processes_that_share_questions(redis_server, tmp_path):
    (commands,) = re.findall(r"^```console\n((?:\$ .*\n)*\$ WORKER=a.*\n(?:\$ .*\n)*)```$", PAGE.read_text(), re.MULTILINE)
    ports = {"6379": redis_server.port, "8001": free_port(), "8002": free_port()}
    script = re.sub("|".join(ports), lambda found: str(ports[found[0]]), commands.replace("$ ", ""))
    shutil.copy(FILES / "server.py", tmp_path)
    # `python` is the one that runs the tests.
    environment = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    shell = Service("shell", tmp_path, ["bash", "-c", f"{script}trap 'kill $(jobs -p)' TERM\nwait\nwait"], port=0, env=environment)
    shell.is_ready = lambda: accepts(ports["8001"]) and accepts(ports["8002"])
    urls = [f"http://127.0.0.1:{ports[name]}/mcp" for name in ("8001", "8002")]

    async def main():
        async with raw_client() as client:
            for first, second, name in ((*urls, "b"), (*reversed(urls), "a")):
                _, retry = await ask(client, first, "x")
                assert (await answer(client, second, "x", retry)).text == f"Worker {name} erased x."

    try:
        shell.start()
        asyncio.run(main())
    finally:
        shell.end()
    assert not accepts(ports["8001"])
    assert not accepts(ports["8002"])
