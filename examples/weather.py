"""A demo server: one tool reports progress, one asks the user, and one must not be called twice by mistake."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from twopipes import Context, Server

STATIONS = ("lighthouse", "airport", "observatory")

server = Server("weather", version="1.0", instructions="Ask for a forecast, for advice on what to pack, or book a journey.")


class Forecast(TypedDict):
    """What it will be like."""

    city: str
    celsius: int
    sky: Literal["sun", "rain"]


class Journey(TypedDict):
    """Where to, and when."""

    city: Annotated[str, Meta(description="Where does it go?", min_length=1)]
    season: Literal["spring", "summer", "autumn", "winter"]


# Read-only, and declared so: a client may call it again if this process exits before it responds.
@server.tool(annotations={"readOnlyHint": True})
async def forecast(city: str, ctx: Context) -> Forecast:
    """Ask three stations what the weather will be like."""
    print(f"forecast for {city} requested")  # goes to stderr: printed text never reaches the wire
    for number, station in enumerate(STATIONS, 1):
        await asyncio.sleep(0.15)
        await ctx.progress(number, len(STATIONS), f"the {station} has answered")
    celsius = 8 + 2 * len(city)
    return Forecast(city=city, celsius=celsius, sky="sun" if celsius % 4 == 0 else "rain")


@server.tool(annotations={"readOnlyHint": True})
async def advise(ctx: Context) -> str:
    """Ask where the journey goes, and say what to pack."""
    journey = await ctx.elicit("Where does the journey go, and when?", Journey)
    if journey.content is None:
        return "Who stays at home needs no luggage."
    thing = "a coat" if journey.content["season"] in {"autumn", "winter"} else "a hat"
    return f"For {journey.content['city']} in {journey.content['season']}: {thing}."


# Two calls book two journeys, so it is not declared idempotent.
@server.tool
async def book(city: str, ctx: Context) -> str:
    """Book a journey."""
    await ctx.progress(1, 2, "asking the railway")
    await asyncio.sleep(0.5)
    await ctx.progress(2, 2, "there is a seat")
    return f"Booked: {city}."


if __name__ == "__main__":
    server.run()
