"""Run one server in both eras of the protocol, kill it three times during calls, and show every line that crosses the pipes.

``make demo`` runs this program. It writes the recordings and their HTML pages to ``build/demo``, or to a folder of your choice.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import sys
import textwrap
import threading
import time
from collections.abc import Awaitable, Callable
from io import TextIOWrapper
from pathlib import Path
from typing import Literal

from twopipes import Client, ServerExited, TwopipesError, __version__, connect
from twopipes._tools.terminal import Terminal, visible
from twopipes._tools.view.html import write_page
from twopipes._tools.view.render import Rendered, Renderer
from twopipes.trace import Conversation, Event, Judge, Recorder, header_for, read
from twopipes.types import LEGACY, MODERN, Elicitation

COMMAND = (sys.executable, os.path.relpath(Path(__file__).parents[1] / "examples" / "weather.py"))
# The key that seals the questions of the server, so that a new process accepts the answer to a question of the previous one.
# Without it twopipes keeps a key in the user's state folder, and a demo must leave nothing there.
ENVIRONMENT = {"TWOPIPES_STATE_KEY": secrets.token_hex(32)}
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows has no SIGKILL, and SIGTERM does the same there
MAX_WIDTH = 100  # columns of the comments
Era = Literal["legacy", "modern"]


# The two acts


class Stage:
    """A client of the server, and the comments for the audience, which are recorded between the lines of the wire."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.kills_while_thinking = False
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """The client; available while an act is played."""
        assert self._client is not None
        return self._client

    def comment(self, text: str) -> None:
        """Record a comment for the audience."""
        self.recorder.event("note", reason=text, connection=0 if self._client is None else self._client.restarts)

    async def play(self, era: Era, act: Callable[[Stage], Awaitable[None]]) -> None:
        """Launch the server, play an act, and end the server."""
        connecting = connect(*COMMAND, era=era, on_elicit=self.answer, trace=self.recorder, env=ENVIRONMENT)
        async with connecting as self._client:
            await act(self)
        if (closed := self._client.closed) is not None:
            self.comment(f"The server {closed.describe()}. No process is left.")

    async def answer(self, _question: Elicitation) -> dict[str, str]:
        """Answer for the user, after a moment."""
        if self.kills_while_thinking:
            self.kill("Before the user answers")
        await asyncio.sleep(0.4)
        return {"city": "Oslo", "season": "winter"}

    def kill(self, when: str) -> None:
        """Kill the server without warning, as the system does when memory runs out."""
        pid = self.client.pid
        if pid is not None:
            self.comment(f"{when}: kill -9 {pid}")
            os.kill(pid, KILL)

    def kill_at_first_report(self) -> Callable[[object], None]:
        """Return a progress callback that kills the server at the first report, and does nothing after that."""
        kills = iter([lambda: self.kill("During the call")])
        return lambda _report: next(kills, lambda: None)()


async def session(stage: Stage) -> None:
    """Play the legacy era: a handshake first, and the server sends its questions as requests."""
    stage.comment("The list of tools, and a tool that reports progress. Its print() goes to stderr (!), not to the wire:")
    await stage.client.list_tools()
    await stage.client.call_tool("forecast", {"city": "Lisbon"})
    stage.comment("A tool that asks the user. In the legacy era the server sends a request:")
    await stage.client.call_tool("advise")


async def stateless(stage: Stage) -> None:
    """Play the modern era: every request is independent, a question is a result, and the process can be replaced."""
    client = stage.client
    stage.comment("The same tool asks. Here the question is the result of the call, which is sent again with the answer:")
    await client.list_tools()
    await client.call_tool("advise")

    stage.comment("The server is killed during a forecast. The tool is read-only: the call is sent again to a new server.")
    result = await client.call_tool("forecast", {"city": "Lisbon"}, on_progress=stage.kill_at_first_report())
    stage.comment(f"The caller does not notice and gets {result.structured}.")

    stage.comment("The server is killed while the user is asked. The answer goes to a new process, which continues the call:")
    stage.kills_while_thinking = True
    await client.call_tool("advise")
    stage.kills_while_thinking = False

    stage.comment("The server is killed while it books a journey. This call is not sent again: the seat may already be booked.")
    try:
        await client.call_tool("book", {"city": "Oslo"}, on_progress=stage.kill_at_first_report())
    except ServerExited as error:
        stage.comment(f"The caller gets ServerExited: signal={error.signal}, method={error.method}, retryable={error.retryable}.")
    stage.comment("The next call works again:")
    await client.call_tool("forecast", {"city": "Rome"})


# The display


class Screen:
    """Shows a recording while it is written."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._width = terminal.width if terminal.is_terminal else None
        self._over = threading.Event()

    def end(self) -> None:
        """Report that the recording is complete. The rest of it is still shown."""
        self._over.set()

    def follow(self, path: Path) -> None:
        """Show the recording as it grows, until its end. Blocks, so run it in a thread."""
        is_last_look = False

        def look_again() -> bool:
            nonlocal is_last_look
            if is_last_look:
                return False
            is_last_look = self._over.wait(0.02)
            return True

        trace = read(path, follow=look_again)
        conversation = Conversation(trace.header)
        renderer = Renderer(conversation, width=self._width, escape=visible)
        judge = Judge(conversation)
        for entry in trace:
            known = len(conversation.items)
            conversation.feed(entry)
            for item in conversation.items[known:]:
                if isinstance(item, Event) and item.name == "note":
                    text = item.reason or ""
                    self.narrate(text, "bold red" if "kill -9" in text else "bold")
                else:
                    for line in renderer.show(item, judge.look(item)):
                        self._write(line)
            self._terminal.flush()
        conversation.finish()
        for line in renderer.summary():
            self._write(line)

    def narrate(self, text: str, style: str = "bold") -> None:
        """Show a comment between the lines."""
        self._terminal.say()
        for line in textwrap.wrap(text, min(self._terminal.width, MAX_WIDTH), break_on_hyphens=False):
            self._terminal.say((line, style))
        self._terminal.flush()

    def _write(self, line: Rendered) -> None:
        self._terminal.say(*((visible(piece.text), piece.style) for piece in line))


async def record(name: str, era: Era, act: Callable[[Stage], Awaitable[None]], folder: Path, screen: Screen) -> Path:
    """Play one act, show it while it is recorded, and write its page."""
    path = folder / f"{name}.jsonl"
    path.unlink(missing_ok=True)
    recorder = Recorder(path, header_for("client", argv=COMMAND, environment=ENVIRONMENT), must_open=True)
    showing = asyncio.create_task(asyncio.to_thread(screen.follow, path))
    try:
        await Stage(recorder).play(era, act)
    finally:
        recorder.close()
        screen.end()
        await showing
    page = path.with_suffix(".html")
    write_page(read(path), page)
    return page


def main(folder: Path) -> int:
    """Play both acts, and print where to see them again."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for terminals without UTF-8
    terminal = Terminal()
    began = time.monotonic()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        screen = Screen(terminal)
        terminal.say(
            (f"twopipes {__version__}", "bold cyan"), ": a server, a client, and every line between them, as it is recorded."
        )
        terminal.say(("> client   < server   ! stderr of the server   = process events", "dim"))
        screen.narrate(f"1. The legacy era, with a handshake and a session: {LEGACY[0]} to {LEGACY[-1]}", "bold cyan")
        first = asyncio.run(record("session", "legacy", session, folder, screen))
        screen = Screen(terminal)
        screen.narrate(f"2. The modern era, stateless: {MODERN[-1]}. The same server, killed three times.", "bold cyan")
        second = asyncio.run(record("stateless", "modern", stateless, folder, screen))
        screen.narrate(f"The demo took {time.monotonic() - began:.1f} s. See it again, with every message:")
        terminal.say("  in a browser      ", (f"{second}", "cyan"), "  and  ", (f"{first}", "cyan"))
        terminal.say("  in this terminal  ", (f"{_ours()} view {second.with_suffix('.jsonl')}", "cyan"))
        terminal.flush()
    except BrokenPipeError:  # the reader closed the pipe (`| head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (TwopipesError, OSError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _ours() -> str:
    """Return the twopipes command as it can be typed here."""
    beside = Path(sys.executable).with_name("twopipes")
    if shutil.which("twopipes") == str(beside) or not beside.is_file():
        return "twopipes"
    return str(beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/demo")))
