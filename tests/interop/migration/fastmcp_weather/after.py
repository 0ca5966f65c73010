"""The weather of some cities, from a table."""

from base64 import b64decode
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from twopipes import Context, Image, Server, ToolError, ToolResult

TABLE = {"Bergen": [7, 9, 8], "Lisbon": [21, 22, 19], "Lima": [17, 18, 18]}
DOT = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
Unit = Literal["celsius", "fahrenheit"]

mcp = Server(name="Weather", version="2.0")


@dataclass
class Day:
    number: int
    degrees: float


class Forecast(BaseModel):
    city: str = Field(description="As it was asked for.")
    unit: Unit
    days: list[Day]


def degrees_of(city: str, unit: Unit) -> list[float]:
    if city not in TABLE:
        raise ToolError(f"There is no weather for {city}.")
    return [float(degrees) if unit == "celsius" else degrees * 1.8 + 32 for degrees in TABLE[city]]


@mcp.tool(annotations={"readOnlyHint": True})
def temperature(city: str, unit: Unit = "celsius") -> float:
    """Tells how warm it is today."""
    return degrees_of(city, unit)[0]


@mcp.tool(name="forecast", meta={"source": "table"})
async def make_forecast(
    city: str, ctx: Context, days: Annotated[int, Field(description="How far to look.", ge=1, le=3)] = 3, unit: Unit = "celsius"
) -> Forecast:
    """Tells how warm it will be."""
    found = []
    for number, degrees in enumerate(degrees_of(city, unit)[:days], start=1):
        await ctx.progress(number, days, f"day {number}")
        found.append(Day(number, degrees))
    return Forecast(city=city, unit=unit, days=found)


@mcp.tool
def warmest(cities: list[str]) -> dict[str, float]:
    """Tells the warmest day of each city."""
    return {city: max(degrees_of(city, "celsius")) for city in cities}


@mcp.tool
def chart(city: str) -> Image:
    """Draws the temperatures, though not very well."""
    degrees_of(city, "celsius")
    return Image(DOT, mime_type="image/png")


@mcp.tool
def describe(city: str) -> ToolResult:
    """Says it in words, and in numbers."""
    today = degrees_of(city, "celsius")[0]
    return ToolResult(content=f"It is {today} degrees in {city}.", structured={"city": city, "degrees": today})


@mcp.tool
def difference(first: str, second: str) -> float:
    """Tells how much warmer the one city is than the other."""
    return float(TABLE[first][0] - TABLE[second][0])


@mcp.resource("weather://cities", name="cities", description="Where there is weather.", mime_type="text/plain")
def list_cities() -> str:
    return "\n".join(TABLE)


@mcp.resource("weather://{city}/{day}", mime_type="text/plain")
def one_day(city: str, day: int) -> str:
    """The temperature of one day."""
    return f"{TABLE[city][day - 1]} degrees"


@mcp.prompt
def packing(city: Annotated[str, Field(description="Where to.")]) -> str:
    """Asks what to pack."""
    return f"What do I need in {city} at {TABLE[city][0]} degrees?"


@mcp.completion("packing", "city")
@mcp.completion("weather://{city}/{day}", "city")
async def complete(value):
    return [city for city in TABLE if city.startswith(value)]


if __name__ == "__main__":
    mcp.run()
