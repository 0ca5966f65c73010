"""Make the pictures of the documentation: record a conversation with ``examples/everything.py``, and take screenshots.

    python tools/screenshots.py [FOLDER]     docs/images by default

It needs Chromium (Debian's will do) and the dependency group ``browser``.
"""

from __future__ import annotations

import asyncio
import fcntl
import io
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import structs
from PIL import Image
from playwright.sync_api import Page, sync_playwright
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from twopipes import McpError, ServerCommand, ServerExited, connect
from twopipes._protocol.types import Implementation
from twopipes._trace.format import decode_header, encode
from twopipes.trace import Event, read
from twopipes.types import ClientOptions

ROOT = Path(__file__).parents[1]
# What one finds in the wild: a launcher that greets on the channel of the messages, and a log on stderr.
SERVER = """\
echo "Everything 1.0, ready to serve"
echo "INFO everything: starting" >&2
echo "WARNING everything: no API token; only public data" >&2
exec "$PYTHON" "$EVERYTHING"
"""
WIDTH, HEIGHT = 1280, 800
COLUMNS = 116
# Between the strongest and the weakest part of a colour that is more than a grey.
VIVID = 60
# The colours of the page's dark side.
TERMINAL = TerminalTheme(
    (21, 21, 23),
    (235, 233, 229),
    [
        *((60, 60, 66), (255, 141, 132), (95, 201, 191), (225, 181, 88)),
        *((152, 167, 255), (195, 169, 242), (120, 196, 222), (210, 208, 204)),
    ],
)


def main() -> None:
    """Make all pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        trace = Path(scratch) / "everything.trace.jsonl"
        asyncio.run(record(trace))
        page = Path(scratch) / "everything.html"
        run("view", str(trace), "--html", str(page))
        with browser() as chromium:
            photograph_page(chromium, page, folder)
            photograph_terminal(chromium, trace, Path(scratch), folder)
    for picture in sorted(folder.glob("*.png")):
        shrink(picture)
        print(f"{picture.relative_to(ROOT) if picture.is_relative_to(ROOT) else picture}: {picture.stat().st_size // 1000} kB")


def run(*arguments: str) -> bytes:
    """Run our own command."""
    return subprocess.run([sys.executable, "-m", "twopipes", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout


# The conversation


async def record(trace: Path) -> None:
    """Record a conversation with a bit of everything: a stray line, errors, questions, progress, a cancellation."""
    launcher = trace.with_name("everything.sh")
    launcher.write_text(SERVER)
    command = ServerCommand(
        [sys.executable, "-m", "twopipes", "tap", "--quiet", "-o", str(trace), "--", "sh", launcher.name],
        env={"PYTHON": sys.executable, "EVERYTHING": str(ROOT / "examples" / "everything.py")},
        cwd=launcher.parent,
    )
    info = Implementation("example-host", "2.1")
    async with connect(
        command, options=ClientOptions(client_info=info), on_elicit=answer, on_sample=lambda _: "It depends.", roots=[ROOT]
    ) as client:
        await client.list_tools()
        await client.list_resources()
        await client.call_tool("echo", {"text": "Hello, wire."})
        await client.call_tool("structured", {"city": "Zürich", "celsius": 21.5})
        await client.call_tool("slow", {"steps": 3, "seconds": 0.12}, on_progress=lambda _: None)
        await client.call_tool("ask_twice")
        await client.call_tool("fail")
        with suppress(McpError):
            await client.read_resource("note://nowhere")
        await asyncio.gather(*(client.call_tool("block", {"seconds": seconds}) for seconds in (0.32, 0.18, 0.25)))
        await client.call_tool("log", log_level="warning")
        with suppress(TimeoutError):
            async with asyncio.timeout(0.4):
                await client.call_tool("slow", {"steps": 100, "seconds": 0.15}, on_progress=lambda _: None)
        await client.get_prompt("review", {"code": "print('hello')"})
        await client.read_resource("image://pixel")
        last = asyncio.ensure_future(client.call_tool("block", {"seconds": 60}))
        await asyncio.sleep(1.2)
        # As if the system had run out of memory: the server dies while it is at work.
        os.kill(pid_of_the_server(trace), signal.SIGKILL)
        with suppress(ServerExited):
            await last
    anonymise(trace)


def pid_of_the_server(trace: Path) -> int:
    """Return the recording of the tap."""
    return next(entry.pid for entry in read(trace) if isinstance(entry, Event) and entry.pid is not None)


def anonymise(trace: Path) -> None:
    """Remove what belongs to this machine from the header."""
    first, rest = trace.read_bytes().split(b"\n", 1)
    header = structs.replace(decode_header(first), cwd="/home/ada/everything", platform="Linux x86_64, cpython 3.13")
    trace.write_bytes(encode(header) + rest)


async def answer(question: Any) -> dict[str, Any]:
    """Fill in the forms of the server, after a moment."""
    await asyncio.sleep(0.2)
    return {"name": "Ada", "age": 36} if "age" in question.schema["properties"] else {"favourite": "green", "others": []}


# The pictures


@contextmanager
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        sys.exit("Error: chromium was not found; install Debian's package chromium, or put one on the PATH")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        try:
            yield chromium
        finally:
            chromium.close()


def photograph_page(chromium: Any, page: Path, folder: Path) -> None:
    """Take the page closed and with an open message, light and dark, and on a narrow screen."""
    for theme in ("light", "dark"):
        context = chromium.new_context(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=theme, device_scale_factor=1.5)
        tab: Page = context.new_page()
        tab.goto(page.as_uri())
        tab.screenshot(path=folder / f"html-view-{theme}.png")
        tab.locator(".row.request", has_text="ask_twice").first.click()
        tab.screenshot(path=folder / f"html-view-message-{theme}.png")
        context.close()
    context = chromium.new_context(viewport={"width": 800, "height": HEIGHT}, color_scheme="light", device_scale_factor=1.5)
    tab = context.new_page()
    tab.goto(page.as_uri())
    tab.locator("#show-findings").click()
    tab.screenshot(path=folder / "html-view-narrow.png")
    context.close()


def photograph_terminal(chromium: Any, trace: Path, scratch: Path, folder: Path) -> None:
    """Draw the terminal output of ``twopipes view`` with rich."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(in_a_terminal("view", trace.name, folder=trace.parent)))
    # The font that rich names is on the network; ours is here.
    drawn = console.export_svg(title=f"twopipes view {trace.name}", theme=TERMINAL)
    drawn = re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL).replace("Fira Code", "JetBrains Mono")
    picture = scratch / "view.html"
    picture.write_text(f"<!doctype html><meta charset=utf-8><body style='margin:0;font-variant-ligatures:none'>{drawn}")
    context = chromium.new_context(viewport={"width": 1000, "height": 400}, device_scale_factor=1.5)
    tab: Page = context.new_page()
    tab.goto(picture.as_uri())
    tab.locator("svg").screenshot(path=folder / "view-terminal.png")
    context.close()


def in_a_terminal(*arguments: str, folder: Path) -> str:
    """Return what our command writes to a terminal."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "twopipes", *arguments]
    with subprocess.Popen(command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, env=environment):
        os.close(theirs)
        said = b""
        with suppress(OSError):  # the end of a terminal is an error
            while piece := os.read(ours, 65536):
                said += piece
    os.close(ours)
    return said.decode().replace("\r\n", "\n")


def shrink(picture: Path) -> None:
    """Reduce a picture to 256 colours, which makes it two thirds smaller."""
    image = Image.open(picture).convert("RGB")
    counted: Any = image.getcolors(image.width * image.height)
    common = [colour for _, colour in sorted(counted, reverse=True)]
    colourful = [colour for colour in common if max(colour) - min(colour) > VIVID]
    colours = [part for colour in [*common[:80], *colourful[:112]] for part in colour]
    colours += (image.quantize(64).getpalette() or [])[: 64 * 3]
    palette = Image.new("P", (1, 1))
    palette.putpalette(colours)
    image.quantize(palette=palette, dither=Image.Dither.NONE).save(picture, optimize=True)


if __name__ == "__main__":
    main()
