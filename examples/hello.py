# The smallest server: one function. A host runs it with `python hello.py`.
from twopipes import Server


def greet(name: str) -> str:
    return f"Hello, {name}!"


server = Server("hello", tools=[greet])
server.run()
