"""Swap links, folders and files at every level of a served folder while it is read: nothing from outside may be read (RS-08)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from attacking import Attack, main

from twopipes import McpError, Server, connect

INSIDE = "inside"
SECRET = "SECRET"
# The size of a secret, which a list of files would reveal.
SECRET_SIZE = 4711
URI = "file:///served/"
READS = 1600
AT_ONCE = 8
PATHS = ["a/b/file", "a/file", "file", "link", "a/b/link", "a/up/file", "a", "a/b", ""]

# Each of these places is the real thing and a link to its counterpart outside, in turn. The outside has the same shape.
SWAPPER = """
import os, random, sys
served, outside, spare, seed = sys.argv[1:]
random = random.Random(int(seed))
places = ["a", "a/b", "file", "a/file", "a/b/file", "link", "a/up"]
links = [os.path.join(outside, place) for place in places]
while True:
    place, target = random.choice(places), random.choice(links)
    here, aside, link = os.path.join(served, place), os.path.join(spare, "aside"), os.path.join(spare, "link")
    try:
        if random.random() < 0.5:
            target = os.path.relpath(target, os.path.dirname(here))
        os.symlink(target, link)
        os.rename(here, aside)
        os.rename(link, here)
        for _ in range(random.randrange(100)):
            pass
        os.unlink(here)
        os.rename(aside, here)
    except OSError as error:
        sys.exit(f"the swapper is broken: {place}: {error}")
"""


def fill(folder: Path, text: str) -> None:
    """Create a folder with a file at every level, and links inside of it."""
    (folder / "a" / "b").mkdir(parents=True)
    for path in ("file", "a/file", "a/b/file"):
        (folder / path).write_text(text)
    (folder / "link").symlink_to("a/b/file")
    (folder / "a" / "b" / "link").symlink_to("../file")
    (folder / "a" / "up").symlink_to("../a/b")


async def attack(run: Attack) -> None:
    """Read and list while another process swaps."""
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        served, outside, spare = top / "served", top / "outside", top / "spare"
        fill(served, INSIDE)
        fill(outside, SECRET.ljust(SECRET_SIZE, "."))
        spare.mkdir()
        server = Server("files")
        server.add_directory(URI, served)
        words = [sys.executable, "-S", "-c", SWAPPER, str(served), str(outside), str(spare), str(run.random.randrange(2**32))]
        swapper = subprocess.Popen(words)  # noqa: ASYNC220 - it is started once
        try:
            async with connect(server) as client:
                for _ in run.rounds():
                    for _ in range(READS // AT_ONCE):
                        await asyncio.gather(*(read(client, run) for _ in range(AT_ONCE)))
                    await look_through(client, run)
                    run.check(swapper.poll() is None, "the swapper", "a running process", f"exit code {swapper.poll()}")
        finally:
            swapper.kill()
            swapper.wait()


async def read(client, run: Attack) -> None:
    """Read one place, and look for content from outside the folder."""
    path = run.random.choice(PATHS)
    try:
        result = await client.read_resource(URI + path)
    except McpError:
        run.counts["refused"] += 1
        return
    run.counts["reads"] += 1
    for content in result.contents:
        run.check(SECRET not in (content.text or ""), f"{URI}{path}", "nothing from outside", content.text)


async def look_through(client, run: Attack) -> None:
    """List everything, and look for the size of a secret."""
    for resource in await client.list_resources():
        run.counts["listed"] += 1
        run.check(resource.size != SECRET_SIZE, resource.uri, "a size from inside", resource.size)


if __name__ == "__main__":
    sys.exit(main(attack, __doc__))
