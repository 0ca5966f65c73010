"""A server that asks its user several questions, with the same code in every revision of the protocol."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from twopipes import Context, Server, ToolError

server = Server("travel agent", version="1.0", instructions="Books trips. Call book_trip and answer its questions.")


class Destination(TypedDict):
    """Where to."""

    city: Annotated[str, Meta(description="Where do you want to go?", min_length=1)]
    season: Literal["spring", "summer", "autumn", "winter"]


class Confirmation(TypedDict):
    """Yes or no."""

    confirmed: Annotated[bool, Meta(description="Book it now?")]


@server.tool
async def book_trip(ctx: Context) -> str:
    """Book a trip; asks where to, then for a confirmation."""
    where = await ctx.elicit("Where shall we go?", Destination)
    if where.content is None:
        raise ToolError("No destination, no trip.")
    trip = f"{where.content['city']} in {where.content['season']}"
    await ctx.progress(1, 2, "one question left")
    sure = await ctx.elicit(f"Book {trip}?", Confirmation)
    if sure.content is None or not sure.content["confirmed"]:
        return "Nothing was booked."
    return f"Booked: {trip}."


if __name__ == "__main__":
    server.run()
