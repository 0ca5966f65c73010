"""What is said to an author who made one of the usual mistakes. Loaded when one was made, and not before."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from twopipes.errors import LocalProtocolError

__all__ = ["hint_about", "no_such_member", "no_such_option", "not_a_server", "not_a_uri"]

_ERAS: Final = ("both", "legacy", "modern")

# What the same is called elsewhere, and here. No other name works: two names for one thing would be one to wonder about.
_ELSEWHERE: Final = {
    "report_progress": "ctx.progress(done, total, message)",
    "debug": 'ctx.log("debug", data)',
    "info": 'ctx.log("info", data)',
    "warning": 'ctx.log("warning", data)',
    "error": 'ctx.log("error", data)',
    "roots": "ctx.list_roots()",
    "send_log_message": "ctx.log(level, data)",
    "create_message": "ctx.sample(messages)",
    "session": "ctx itself: ctx.elicit(), ctx.sample(), ctx.list_roots(), ctx.log()",
    "request_id": "ctx.call.id",
    "request_context": "ctx.lifespan, ctx.meta and ctx.client",
    "lifespan_context": "ctx.lifespan",
    "client_id": "ctx.client.info",
    "is_cancelled": "ctx.cancelled, which is true or false",
}


def not_a_server(name: Any, version: Any, eras: Any, tools: Any, lifespan: Any) -> LocalProtocolError:
    """What is said about the first thing that is wrong with what a server was to be made of."""
    if not isinstance(name, str) or not name:
        return LocalProtocolError(f'the name of a server is a text, and {_shown(name)} is none; write Server("my-server")')
    if not isinstance(version, str):
        return LocalProtocolError(
            f"the version of a server is a text, and {_shown(version)} is none; write version={str(version)!r}"
        )
    if eras not in _ERAS:
        return LocalProtocolError(f"eras= is one of {', '.join(_ERAS)}, and not {eras!r}")
    if callable(tools):
        return LocalProtocolError(f"tools= is a list of functions; write tools=[{_shown(tools)}]")
    return LocalProtocolError(f"the lifespan {_shown(lifespan)} has a yield; put @contextlib.asynccontextmanager above it")


def not_a_uri(given: Any, where: str) -> LocalProtocolError:
    """What is said where the URI of a resource was forgotten, or stands in another place."""
    return LocalProtocolError(
        f"{where} needs the URI of the resource before anything else, and {_shown(given)} is none; "
        f'write @server.resource("config://app"), or @server.resource("user://{{name}}") for a function that takes a name'
    )


def no_such_option(kind: str, given: Collection[str], known: Collection[str]) -> LocalProtocolError:
    """What is said about options that a tool, a resource or a prompt does not have."""
    unknown = ", ".join(f"{name}=" for name in given if name not in known)
    return LocalProtocolError(f"a {kind} has no option {unknown}; there are {', '.join(f'{name}=' for name in known)}")


def no_such_member(name: str) -> str:
    """What is said about a member that a context does not have."""
    meant = _ELSEWHERE.get(name)
    said = f"'Context' object has no attribute {name!r}"
    return said if meant is None else f"{said}; here it is {meant}"


def hint_about(error: BaseException) -> str:
    """What its author may want to know about an error in a handler, as a line; empty where the error says it all."""
    text = str(error)
    if isinstance(error, AttributeError | TypeError) and "'coroutine' object" in text:
        return (
            "Hint: what is called a coroutine there was not awaited. Write await before the call; "
            "in a function that is not async, ctx.wait(ctx.elicit(...))\n"
        )
    if isinstance(error, EOFError):
        return "Hint: standard input carries the protocol, so that input() finds nothing there. Ask the user by ctx.elicit(...)\n"
    if isinstance(error, SystemExit):
        return (
            "Hint: the server goes on; sys.exit() ends nothing but this call. "
            "To tell the model what is wrong, raise ToolError(...)\n"
        )
    if isinstance(error, RuntimeError) and "running event loop" in text:
        return "Hint: a handler that is async has an event loop already. Await what you would run there\n"
    return ""


def _shown(thing: Any) -> str:
    return getattr(thing, "__qualname__", None) or repr(thing)
