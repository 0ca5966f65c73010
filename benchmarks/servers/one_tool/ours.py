"""One tool, on twopipes."""

from twopipes import Server

server = Server("ours", version="1.0")


@server.tool
async def echo(text: str) -> str:
    """Return a text."""
    return text


server.run()
