"""A bundle of `twopipes pack`: on Windows too, its server works from the unpacked folder alone."""

import asyncio
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from packing import FOR_THIS_PYTHON, wheel_of_installed
from twopipes import connect

NET = 60
EXAMPLE = Path(__file__).parents[2] / "examples" / "files.py"
# -I ignores the environment and the user's packages, and -S those that are installed: only the bundle is left.
ALONE = (sys.executable, "-I", "-S")


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The folder of a bundle of `examples/files.py`. `make windows` has packed it on Linux; elsewhere it is packed here."""
    folder = tmp_path_factory.mktemp("a folder (1)")
    bundle = os.environ.get("TWOPIPES_BUNDLE") or packed_here(folder)
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(folder / "unpacked")
    return folder / "unpacked"


def packed_here(folder):
    wheel_of_installed(folder, "msgspec")
    offline = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": os.devnull}
    done = subprocess.run(
        [sys.executable, "-m", "twopipes", "pack", str(EXAMPLE), *FOR_THIS_PYTHON, "-o", str(folder / "files.mcpb")],
        env=offline,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=2 * NET,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return folder / "files.mcpb"


def test_the_packages_of_these_tests_are_out_of_reach():
    done = subprocess.run([*ALONE, "-c", "import msgspec"], stdin=subprocess.DEVNULL, capture_output=True, timeout=NET, check=False)
    assert b"No module named 'msgspec'" in done.stderr


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_its_server_works_from_the_unpacked_folder_alone(unpacked, tmp_path, era):
    shown = tmp_path / "shown here"
    shown.mkdir()
    (shown / "grüße.txt").write_text("hello", encoding="utf-8")

    async def scenario():
        async with asyncio.timeout(NET):
            async with connect(*ALONE, str(unpacked / "server" / "main.py"), str(shown), era=era) as client:
                assert (await client.call_tool("find", {"name": "GRÜ"})).structured == {"result": ["grüße.txt"]}
                assert (await client.read_resource(shown.as_uri() + "/gr%C3%BC%C3%9Fe.txt")).text == "hello"
            assert (client.closed.ended_by, client.closed.exit.code) == ("eof", 0)

    asyncio.run(scenario())
