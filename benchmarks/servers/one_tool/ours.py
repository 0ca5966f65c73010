"""One tool, on twopipes."""

from twopipes import Server

server = Server("ours", version="1.0")


@server.tool
async def echo(text: str) -> str:
    """Give a text back."""
    return text


server.run()
