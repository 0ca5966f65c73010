"""Connect to a server in both eras over real pipes, and show every line that crosses them.

Run it with a command to talk to another server: ``python examples/two_eras.py python my_server.py``.
"""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twopipes.channels import Channel, PipeChannel
from twopipes.errors import TwopipesError
from twopipes.sansio import ClientOpened, ClientProfile, ClientSession, OpeningEnded, ProgressReceived, RequestEnded
from twopipes.settings import Timeouts
from twopipes.types import LEGACY, MODERN, Implementation

SERVER = (sys.executable, str(Path(__file__).with_name("echo_server.py")))
COLOURED = sys.stdout.isatty() and "NO_COLOR" not in os.environ
CYAN, GREEN, DIM, BOLD = "36", "32", "2", "1"


def paint(text: str, colour: str) -> str:
    """Colour a text if the output is a terminal."""
    return f"\x1b[{colour}m{text}\x1b[0m" if COLOURED else text


class Screen:
    """Print the lines of one direction as they are on the wire, each when it is complete."""

    def __init__(self, arrow: str, colour: str) -> None:
        self._arrow = arrow
        self._colour = colour
        self._rest = b""

    def show(self, data: bytes) -> None:
        """Print the lines that these bytes complete."""
        # Split bytes, not text: str.splitlines also splits at U+2028, and an incomplete character cannot be decoded.
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            print(paint(f"  {self._arrow} {line.decode(errors='replace')}", self._colour))


class Conversation:
    """A client session over a channel, with just enough code to send one request after another."""

    def __init__(self, session: ClientSession, channel: Channel) -> None:
        self._session = session
        self._channel = channel
        self._sent = Screen("client >", CYAN)
        self._received = Screen("server <", GREEN)

    async def until(self, *kinds: type[Any]) -> Any:
        """Send pending bytes and read until one of these events happens."""
        while True:
            data = self._session.data_to_send()
            self._sent.show(data)
            self._channel.write(data)
            await self._channel.drain()
            deadline = self._session.next_deadline()
            try:
                async with asyncio.timeout(None if deadline is None else max(0.0, deadline - time.monotonic())):
                    chunk = await self._channel.read()
            except TimeoutError:
                events = self._session.tick(now=time.monotonic())
            else:
                self._received.show(chunk)
                now = time.monotonic()
                events = self._session.receive(chunk, now=now) if chunk else self._session.receive_eof(now=now)
            for event in events:
                if isinstance(event, ProgressReceived):
                    print(paint(f"    progress: {event.params.progress} of {event.params.total}", DIM))
                if isinstance(event, kinds):
                    return event

    async def ask(self, method: str, **params: Any) -> Any:
        """Send a request and return its result."""
        self._session.request(method, params, now=time.monotonic())
        answered = await self.until(RequestEnded)
        if answered.error is not None:
            raise answered.error
        return answered.result

    async def talk(self) -> None:
        """Open the connection, list the tools, and call ``echo``."""
        self._session.open(now=time.monotonic())
        opened = await self.until(ClientOpened, OpeningEnded)
        if isinstance(opened, OpeningEnded):
            raise opened.error
        server = f"{opened.server_info.name} {opened.server_info.version}" if opened.server_info else "unnamed server"
        print(paint(f"    agreed: {server}, {opened.era}, revision {opened.revision}", DIM))
        tools = [tool.name for tool in (await self.ask("tools/list")).tools]
        print(paint(f"    tools: {', '.join(tools) or 'none'}", DIM))
        if "echo" in tools:
            result = await self.ask("tools/call", name="echo", arguments={"text": "one line,\nwhatever is in it \N{SPARKLES}"})
            print(paint(f"    result: {result.text!r}", DIM))


async def show_conversation(command: Sequence[str], revisions: Sequence[str]) -> None:
    """Launch the server, have a conversation, close its input, and wait for it to exit."""
    from_server, servers_output = os.pipe()
    servers_input, to_server = os.pipe()
    channel = PipeChannel(from_server, to_server)
    try:
        child = await asyncio.to_thread(subprocess.Popen, command, stdin=servers_input, stdout=servers_output)
    except OSError:
        await channel.close()
        raise
    finally:
        os.close(servers_input)
        os.close(servers_output)
    profile = ClientProfile(info=Implementation("demo", "1.0"), revisions=revisions)
    session = ClientSession(profile, timeouts=Timeouts(probe=3, connect=20, request=20))
    try:
        async with channel:
            await Conversation(session, channel).talk()
            await channel.close_write()
            print(paint(f"    closed its input; exit code {await asyncio.to_thread(child.wait, 10)}", DIM))
    finally:
        if child.poll() is None:
            child.kill()
        await asyncio.to_thread(child.wait)


async def main(command: Sequence[str]) -> int:
    """Show one conversation for each era."""
    try:
        print(paint(f"The handshake era ({LEGACY[0]} to {LEGACY[-1]}): a session, opened by initialize", BOLD))
        await show_conversation(command, LEGACY)
        print(paint(f"\nThe stateless era ({MODERN[0]}): every request carries what it needs", BOLD))
        await show_conversation(command, MODERN)
    except (TwopipesError, OSError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a code page of Windows does not have every character
    sys.exit(asyncio.run(main(sys.argv[1:] or SERVER)))
