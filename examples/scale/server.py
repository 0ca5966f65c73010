"""A shared notebook that runs in several processes behind a load balancer; docs/howto/scale-out.md explains it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Annotated, TypedDict

from msgspec import Meta

from twopipes import Context, Server, ToolError
from twopipes.errors import NotFound
from twopipes.http import HttpOptions, RedisBus

# The name of this process. Ids of legacy sessions begin with it, so that the balancer can find the process of a session.
WORKER = os.environ.get("WORKER", "a")

server = Server("notes", version="1.0", instructions="A notebook. Subscribe to note://NAME to learn about changes.")


class Confirmation(TypedDict):
    """Yes or no."""

    confirmed: Annotated[bool, Meta(description="Erase it?")]


@contextmanager
def notes() -> Iterator[sqlite3.Connection]:
    """Open the notes that all processes share. On several machines this is a database server."""
    with closing(sqlite3.connect(os.environ.get("NOTES", "notes.db"), timeout=10)) as connection, connection:
        connection.execute("create table if not exists lines (note text not null, text text not null)")
        yield connection


@server.tool
def write(name: str, line: str) -> str:
    """Add a line to a note, and notify everyone who watches it, in whichever process they are."""
    with notes() as database:
        database.execute("insert into lines values (?, ?)", (name, line))
    server.notify_resource_updated(f"note://{name}")
    return f"Worker {WORKER} wrote {name}."


@server.tool
async def erase(name: str, ctx: Context) -> str:
    """Erase a note if the user confirms it. The answer may arrive at another process, where this function starts again."""
    sure = await ctx.elicit(f"Erase the note {name}?", Confirmation)
    if sure.content is None or not sure.content["confirmed"]:
        raise ToolError("Nothing was erased.")
    with notes() as database:
        database.execute("delete from lines where note = ?", (name,))
    server.notify_resource_updated(f"note://{name}")
    return f"Worker {WORKER} erased {name}."


@server.resource("note://{name}")
def note(name: str) -> str:
    """Read a note."""
    with notes() as database:
        lines = database.execute("select text from lines where note = ?", (name,)).fetchall()
    if not lines:
        raise NotFound("resource", f"note://{name}")
    return "\n".join(line for (line,) in lines)


options = HttpOptions(session_prefix=WORKER)
bus = RedisBus(os.environ.get("REDIS_URL", "redis://127.0.0.1:6379"), channel="notes")

if __name__ == "__main__":
    server.run(http=os.environ.get("LISTEN", "127.0.0.1:8001"), http_options=options, bus=bus)
