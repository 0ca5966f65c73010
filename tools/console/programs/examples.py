"""The server of the examples in the help of the commands."""

from typing import Any

from twopipes import Server

weather = Server("weather", version="1.0")


@weather.tool
def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


@weather.tool
def search(query: str, tags: list[str]) -> str:
    """Search for words."""
    return f"{query}: {tags}"


@weather.tool
def review(code: str, opts: dict[str, Any]) -> str:
    """Review a program."""
    return f"{len(code)} characters, {opts}"


@weather.prompt(name="review")
def review_prompt(code: str, language: str) -> str:
    """Ask for a review."""
    return f"Review this {language} code: {code}"


@weather.resource("note://first")
def first_note() -> str:
    return "Buy milk."


@weather.resource("image://pixel", mime_type="image/png")
def pixel() -> bytes:
    return b"\x89PNG"


if __name__ == "__main__":
    weather.run()
