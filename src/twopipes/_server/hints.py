"""Error messages for common mistakes of authors: what is wrong, and what to write instead."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from inspect import isasyncgenfunction, isgeneratorfunction
from typing import Any, Final, Literal

from twopipes.errors import LocalProtocolError

_ERAS: Final = ("both", "legacy", "modern")

# Names that other libraries have on their context, and what to write here. They are not aliases: one thing has one name.
_OF_OTHER_CONTEXTS: Final = {
    "report_progress": "here it is ctx.progress(done, total, message)",
    "debug": 'here it is ctx.log("debug", data)',
    "info": 'here it is ctx.log("info", data)',
    "warning": 'here it is ctx.log("warning", data)',
    "error": 'here it is ctx.log("error", data)',
    "roots": "here it is ctx.list_roots()",
    "send_log_message": "here it is ctx.log(level, data)",
    "create_message": "here it is ctx.sample(messages)",
    "session": "here it is ctx itself: ctx.elicit(), ctx.sample(), ctx.list_roots(), ctx.log()",
    "request_id": "here it is ctx.call.id",
    "request_context": "here it is ctx.lifespan, ctx.meta and ctx.client",
    "lifespan_context": "here it is ctx.lifespan",
    "client_id": "here it is ctx.client.info",
    "is_cancelled": "here it is ctx.cancelled, which is true or false",
}

_HTTP_KINDS = ("http", "sse", "streamable_http")
# Names that other libraries have on their server object, and what to do here.
_OF_OTHER_SERVERS: Final = {
    "add_middleware": "pass one callable, Server(..., middleware=m), with async def m(ctx, call_next)",
    "add_template": 'a template is a resource whose URI has variables: server.add_resource("user://{name}", function)',
    "get_context": "annotate a parameter of the function, ctx: Context",
    **dict.fromkeys(
        ("mount", "import_server", "add_provider", "as_proxy"),
        "a server cannot contain others; register the functions of both on one server, server.add_tool(function)",
    ),
    **dict.fromkeys(("run_async", "run_stdio_async"), "write await server.serve()"),
    **dict.fromkeys(
        (*(f"run_{kind}_async" for kind in _HTTP_KINDS), "http_app", "sse_app", "streamable_http_app", "custom_route"),
        "server.run(http=8000) serves HTTP, and server.asgi() is an ASGI application",
    ),
    **dict.fromkeys(("get_tools", "list_tools", "call_tool"), "use a client: async with connect(server) as client"),
}
_OF_OTHER_RUNS: Final = {
    "transport": "run() serves stdio; for HTTP write http=8000, and for a socket unix= or tcp=",
    "host": 'write http="127.0.0.1:8000"',
    "port": "write http=8000",
    "show_banner": "there is no banner; leave it out",
    "log_level": "leave it out; clients choose the level of ctx.log()",
}


def check_server(name: Any, version: Any, eras: Any, tools: Any, *, lifespan: Any, page_size: int | None) -> None:
    """Refuse wrong arguments of ``Server()``; an author may have no type checker."""
    if not isinstance(name, str) or not name:
        why = f'the name of a server must be a non-empty string, got {_shown(name)}; write Server("my-server")'
    elif not isinstance(version, str):
        why = f"the version of a server must be a string, got {_shown(version)}; write version={str(version)!r}"
    elif eras not in _ERAS:
        why = f"eras= must be one of {', '.join(_ERAS)}, got {eras!r}"
    elif callable(tools):
        why = f"tools= must be a list of functions; write tools=[{_shown(tools)}]"
    elif isasyncgenfunction(lifespan) or isgeneratorfunction(lifespan):
        why = f"the lifespan {_shown(lifespan)} has a yield; put @contextlib.asynccontextmanager above it"
    elif page_size is not None and page_size < 1:
        why = f"a page holds at least one item, not {page_size}"
    else:
        return
    raise LocalProtocolError(why)


def check_binding(http: Any, others: Mapping[str, Any], of_http: Mapping[str, Any]) -> None:
    """Refuse options of ``run`` and ``serve`` that exclude ``http``, or need it."""
    given = [name for name, value in (others if http is not None else of_http).items() if value is not None]
    if given and http is None:
        raise LocalProtocolError(f"{given[0]}= needs http=, such as http=8000")
    if given == ["trace"]:
        raise LocalProtocolError("trace= is not possible with http=; put twopipes tap between the client and the server")
    if given:
        raise LocalProtocolError(f"http= and {given[0]}= exclude each other; give one of them")


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


def no_such_member(kind: Literal["Context", "Server"], name: str) -> str:
    """Describe a member that a context or a server does not have."""
    known = _OF_OTHER_CONTEXTS if kind == "Context" else _OF_OTHER_SERVERS
    text = f"{kind!r} object has no attribute {name!r}"
    return f"{text}; {known[name]}" if name in known else text


def no_such_run_option(given: Collection[str]) -> TypeError:
    """Describe an option that ``run`` does not have."""
    name = next(iter(given))
    instead = _OF_OTHER_RUNS.get(
        name, "its options are http=, unix=, tcp=, workers=, http_options=, auth=, bus=, trace= and redact="
    )
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
