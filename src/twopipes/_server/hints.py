"""Error messages for common mistakes of authors: what is wrong, and what to write instead."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from twopipes.errors import LocalProtocolError

__all__ = [
    "hint_about",
    "no_such_member",
    "no_such_option",
    "no_such_run_option",
    "no_such_server_member",
    "not_a_server",
    "not_a_uri",
]

_ERAS: Final = ("both", "legacy", "modern")

# Names that other libraries have on their context, and what to write here. They are not aliases: one thing has one name.
_OF_OTHER_CONTEXTS: Final = {
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


_ONE_SERVER: Final = "a server cannot contain others; register the functions of both on one server, server.add_tool(function)"
_NO_HTTP: Final = "HTTP is not served; server.run() serves stdio, and server.run(unix=...) or server.run(tcp=...) a socket"
_IN_A_LOOP: Final = "write await server.serve()"
_BY_A_CLIENT: Final = "use a client: async with connect(server) as client"
# Names that other libraries have on their server object, and what to do here.
_OF_OTHER_SERVERS: Final = {
    "add_middleware": "pass one callable, Server(..., middleware=m), with async def m(ctx, call_next)",
    "mount": _ONE_SERVER,
    "import_server": _ONE_SERVER,
    "add_provider": _ONE_SERVER,
    "as_proxy": _ONE_SERVER,
    "run_async": _IN_A_LOOP,
    "run_stdio_async": _IN_A_LOOP,
    "run_http_async": _NO_HTTP,
    "run_sse_async": _NO_HTTP,
    "run_streamable_http_async": _NO_HTTP,
    "http_app": _NO_HTTP,
    "sse_app": _NO_HTTP,
    "streamable_http_app": _NO_HTTP,
    "custom_route": _NO_HTTP,
    "add_template": 'a template is a resource whose URI has variables: server.add_resource("user://{name}", function)',
    "get_context": "annotate a parameter of the function, ctx: Context",
    "get_tools": _BY_A_CLIENT,
    "list_tools": _BY_A_CLIENT,
    "call_tool": _BY_A_CLIENT,
}
_OF_OTHER_RUNS: Final = {
    "transport": "run() serves stdio; for a socket write unix= or tcp=. HTTP is not served",
    "host": 'write tcp=("127.0.0.1", 9000)',
    "port": 'write tcp=("127.0.0.1", 9000)',
    "show_banner": "there is no banner; leave it out",
    "log_level": "leave it out; clients choose the level of ctx.log()",
}


def not_a_server(name: Any, version: Any, eras: Any, tools: Any, lifespan: Any) -> LocalProtocolError:
    """Describe the first wrong argument of ``Server()``."""
    if not isinstance(name, str) or not name:
        return LocalProtocolError(f'the name of a server must be a non-empty string, got {_shown(name)}; write Server("my-server")')
    if not isinstance(version, str):
        return LocalProtocolError(
            f"the version of a server must be a string, got {_shown(version)}; write version={str(version)!r}"
        )
    if eras not in _ERAS:
        return LocalProtocolError(f"eras= must be one of {', '.join(_ERAS)}, got {eras!r}")
    if callable(tools):
        return LocalProtocolError(f"tools= must be a list of functions; write tools=[{_shown(tools)}]")
    return LocalProtocolError(f"the lifespan {_shown(lifespan)} has a yield; put @contextlib.asynccontextmanager above it")


def not_a_uri(given: Any, where: str) -> LocalProtocolError:
    """Explain that the URI of a resource is missing, or not the first argument."""
    return LocalProtocolError(
        f"{where} needs the URI of the resource as its first argument, got {_shown(given)}; "
        f'write @server.resource("config://app"), or @server.resource("user://{{name}}") for a function that takes a name'
    )


def no_such_option(kind: str, given: Collection[str], known: Collection[str]) -> LocalProtocolError:
    """Name the options that a tool, a resource or a prompt does not have."""
    unknown = ", ".join(f"{name}=" for name in given if name not in known)
    return LocalProtocolError(f"a {kind} has no option {unknown}; its options are {', '.join(f'{name}=' for name in known)}")


def no_such_member(name: str) -> str:
    """Describe a member that a context does not have."""
    meant = _OF_OTHER_CONTEXTS.get(name)
    text = f"'Context' object has no attribute {name!r}"
    return text if meant is None else f"{text}; here it is {meant}"


def no_such_server_member(name: str) -> str:
    """Describe a member that a server does not have."""
    instead = _OF_OTHER_SERVERS.get(name)
    text = f"'Server' object has no attribute {name!r}"
    return text if instead is None else f"{text}; {instead}"


def no_such_run_option(given: Collection[str]) -> TypeError:
    """Describe an option that ``run`` does not have."""
    name = next(iter(given))
    instead = _OF_OTHER_RUNS.get(name, "its options are unix=, tcp=, trace= and redact=")
    return TypeError(f"Server.run() got an unexpected keyword argument {name!r}; {instead}")


def hint_about(error: BaseException) -> str:
    """Return a line that explains an error of a handler to its author; empty if there is nothing to add."""
    text = str(error)
    if isinstance(error, AttributeError | TypeError) and "'coroutine' object" in text:
        return (
            "Hint: the coroutine was not awaited. Write await before the call; "
            "in a function that is not async, ctx.wait(ctx.elicit(...))\n"
        )
    if isinstance(error, EOFError):
        return "Hint: standard input carries the protocol, so input() reads nothing. Ask the user with ctx.elicit(...)\n"
    if isinstance(error, SystemExit):
        return (
            "Hint: sys.exit() ends only this call; the server goes on. To give the model an error message, raise ToolError(...)\n"
        )
    if isinstance(error, RuntimeError) and "running event loop" in text:
        return "Hint: an async handler already runs in an event loop. Use await instead of running another loop\n"
    return ""


def _shown(thing: Any) -> str:
    return getattr(thing, "__qualname__", None) or repr(thing)
