"""One server in both eras of the protocol, killed three times at its work, and everything that crosses the pipes meanwhile.

``make demo`` runs it. The recordings and their HTML pages are left in ``build/demo``, or in a folder that is given as an argument.
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
# What the server seals its questions with, so that a fresh process understands the answer to a question of the one before it.
# Without it twopipes keeps a key in the user's state folder, and a demonstration leaves nothing behind.
ENVIRONMENT = {"TWOPIPES_STATE_KEY": secrets.token_hex(32)}
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows has but one way, and this name for it
WIDEST = 100  # columns in which a sentence is still easy to read
Era = Literal["legacy", "modern"]


# What is played


class Stage:
    """A client of the server, and what the audience is told: that stands in the recording, between the lines of the wire."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.kills_while_thinking = False
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """The client, once it is there."""
        assert self._client is not None
        return self._client

    def tell(self, text: str) -> None:
        """Say something to the audience."""
        self.recorder.event("note", reason=text, connection=0 if self._client is None else self._client.restarts)

    async def play(self, era: Era, act: Callable[[Stage], Awaitable[None]]) -> None:
        """Launch the server, play, and end it."""
        connecting = connect(*COMMAND, era=era, on_elicit=self.answer, trace=self.recorder, env=ENVIRONMENT)
        async with connecting as self._client:
            await act(self)
        if (closed := self._client.closed) is not None:
            self.tell(f"It has left: {closed.describe()}. Nothing of it is still there.")

    async def answer(self, _question: Elicitation) -> dict[str, str]:
        """Answer for the user, who thinks for a moment."""
        if self.kills_while_thinking:
            self.kill("While the user still thinks")
        await asyncio.sleep(0.4)
        return {"city": "Oslo", "season": "winter"}

    def kill(self, when: str) -> None:
        """End the process of the server without a warning, as the system does when there is no memory left."""
        pid = self.client.pid
        if pid is not None:
            self.tell(f"{when}: kill -9 {pid}")
            os.kill(pid, KILL)

    def kill_at_first_report(self) -> Callable[[object], None]:
        """A listener to progress that kills the server at the first report, and not its successor."""
        kills = iter([lambda: self.kill("In the middle of the call")])
        return lambda _report: next(kills, lambda: None)()


async def session(stage: Stage) -> None:
    """The era of sessions: a handshake first, and the server may ask by a request of its own."""
    stage.tell("What it offers, and a tool that reports progress. It also prints, which goes to stderr (!) and never to the wire:")
    await stage.client.list_tools()
    await stage.client.call_tool("forecast", {"city": "Lisbon"})
    stage.tell("A tool that asks the user. In a session, that is a request of the server:")
    await stage.client.call_tool("advise")


async def stateless(stage: Stage) -> None:
    """The era without sessions: every request says what it needs, a question is an answer, and a process can be replaced."""
    client = stage.client
    stage.tell("The same tool asks. Here its call is answered by the question, and sent again with the user's answer:")
    await client.list_tools()
    await client.call_tool("advise")

    stage.tell("Now it dies at work. It was a forecast, which changes nothing: the call is sent again to a fresh process.")
    result = await client.call_tool("forecast", {"city": "Lisbon"}, on_progress=stage.kill_at_first_report())
    stage.tell(f"Whoever called knows nothing of it, and has {result.structured}.")

    stage.tell("It dies while the user is being asked. The answer goes to the next process, which goes on where the last one was:")
    stage.kills_while_thinking = True
    await client.call_tool("advise")
    stage.kills_while_thinking = False

    stage.tell("It dies while it books a journey. That call is not sent again, because the seat may be taken.")
    try:
        await client.call_tool("book", {"city": "Oslo"}, on_progress=stage.kill_at_first_report())
    except ServerExited as error:
        stage.tell(
            f"Whoever called is told: ServerExited, signal={error.signal}, method={error.method}, retryable={error.retryable}."
        )
    stage.tell("And the next call finds a server:")
    await client.call_tool("forecast", {"city": "Rome"})


# What is shown


class Screen:
    """Shows a recording while it is being made."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._width = terminal.width if terminal.is_terminal else None
        self._over = threading.Event()

    def end(self) -> None:
        """The recording is complete: what is left of it is shown, and that was all."""
        self._over.set()

    def follow(self, path: Path) -> None:
        """Show what is recorded as it comes, until the end. This waits, so it has a thread of its own."""
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
        """A sentence between the lines."""
        self._terminal.say()
        for line in textwrap.wrap(text, min(self._terminal.width, WIDEST), break_on_hyphens=False):
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
    """Play both acts, and say where they can be seen again."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that has no such character gets its number
    terminal = Terminal()
    began = time.monotonic()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        screen = Screen(terminal)
        terminal.say(
            (f"twopipes {__version__}", "bold cyan"), ": a server, a client, and every line between them, as it is recorded."
        )
        terminal.say(("> client   < server   ! its stderr   = what happens to it", "dim"))
        screen.narrate(f"1. A session, opened by a handshake: {LEGACY[0]} to {LEGACY[-1]}", "bold cyan")
        first = asyncio.run(record("session", "legacy", session, folder, screen))
        screen = Screen(terminal)
        screen.narrate(f"2. The same server, stateless: {MODERN[-1]}. It will be killed three times.", "bold cyan")
        second = asyncio.run(record("stateless", "modern", stateless, folder, screen))
        screen.narrate(f"All of it took {time.monotonic() - began:.1f} s. See it again, with every message:")
        terminal.say("  in a browser      ", (f"{second}", "cyan"), "  and  ", (f"{first}", "cyan"))
        terminal.say("  in this terminal  ", (f"{_ours()} view {second.with_suffix('.jsonl')}", "cyan"))
        terminal.flush()
    except BrokenPipeError:  # whoever read this has seen enough (`| head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (TwopipesError, OSError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _ours() -> str:
    """Our command as it can be typed here."""
    beside = Path(sys.executable).with_name("twopipes")
    if shutil.which("twopipes") == str(beside) or not beside.is_file():
        return "twopipes"
    return str(beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/demo")))
