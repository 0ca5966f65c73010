"""The smallest server: one function."""

from twopipes import Server

server = Server("hello")


@server.tool
def greet(name: str) -> str:
    """Greet somebody by name."""
    return f"Hello, {name}!"


if __name__ == "__main__":
    server.run()
