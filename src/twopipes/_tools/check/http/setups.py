"""What several probes of HTTP need: a raw exchange, a response that is a stream, and a call with repeated arguments."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct

from twopipes._codes import HEADER_MISMATCH
from twopipes._http.headers import InvalidAnnotation, ParamHeader, param_headers
from twopipes._protocol.revisions import LEGACY, MODERN
from twopipes._tools.check.conversation import ALL_CAPABILITIES
from twopipes._tools.check.http.channel import HttpChannel
from twopipes._tools.check.http.wire import HttpExchange
from twopipes._tools.check.messages import members
from twopipes._tools.check.probe import Case, SafeCall
from twopipes._tools.check.setups import SLOW_NAME
from twopipes._tools.check.verdict import Skip
from twopipes._wire import encode_line
from twopipes.errors import ChannelBroken

# Arguments of the slow tool of test servers: three short steps, each with progress.
_STEPS = {"steps": 3, "seconds": 0.02}
_TRIES = 6
BAD_REQUEST = 400
FORBIDDEN = 403
NOT_FOUND = 404
NOT_ALLOWED = 405


def http_of(case: Case) -> HttpChannel:
    """Return the HTTP side of the conversation of a probe."""
    channel = case.conversation.channel
    if not isinstance(channel, HttpChannel):
        raise Skip("it applies to HTTP only")
    return channel


def is_refused(exchange: HttpExchange) -> bool:
    """Return whether a request was rejected with a 4xx status."""
    return 400 <= exchange.status < 500


async def ask(
    case: Case,
    method: str,
    params: Mapping[str, Any] | None = None,
    *,
    headers: Mapping[str, str | None] | None = None,
    **options: Any,
) -> HttpExchange:
    """Send a correct request, apart from the given headers, and return the exchange. Raise Skip if there is no response."""
    message = case.conversation.message(method, params, **options)
    return await sent(case, message, headers)


async def sent(case: Case, message: Any, headers: Mapping[str, str | None] | None = None, *, method: str = "POST") -> HttpExchange:
    """Send a message or bytes, and return the exchange; raise Skip if the connection was closed without a response."""
    try:
        exchange = await http_of(case).ask(message, headers, method=method)
    except ChannelBroken as error:
        raise Skip(str(error)) from error
    if not exchange.status:
        raise Skip("the server closed the connection without a response")
    return exchange


def expect_mismatch(case: Case, rule: str, exchange: HttpExchange, what: str) -> bool:
    """Judge a rule by whether a request was rejected with 400 and -32020."""
    is_right = exchange.status == BAD_REQUEST and exchange.code == HEADER_MISMATCH
    return case.expect(rule, is_right, f"{what} got {exchange.summary} instead of 400 with -32020", about=exchange)


def streaming_calls(case: Case) -> list[dict[str, Any]]:
    """Return the params of calls that may get a stream, the most likely ones first."""
    found = []
    for call in sorted(case.safe_calls, key=lambda call: not SLOW_NAME.search(call.name))[:_TRIES]:
        properties = members(members(call.tool.get("inputSchema")).get("properties"))
        is_fixture = _STEPS.keys() <= properties.keys()
        found.append({"name": call.name, "arguments": dict(_STEPS)} if is_fixture else call.params)
    return found


async def streamed_call(case: Case, token: str) -> HttpExchange:
    """Call tools until a response is a stream, and return its exchange; raise Skip if none is."""
    for params in streaming_calls(case):
        exchange = await ask(case, "tools/call", params, meta={"progressToken": token}, client_capabilities=ALL_CAPABILITIES)
        if exchange.is_stream:
            return exchange
    raise Skip("no response of the server is a stream; name a tool with --call that reports progress")


async def open_listen(case: Case, wanted: Mapping[str, Any]) -> HttpExchange:
    """Open a listen (modern), and return its exchange after the first event. The caller closes it."""
    http = http_of(case)
    message = case.conversation.message("subscriptions/listen", {"notifications": wanted})
    return await opened(case, http.exchange("POST", http.headers_for(message), encoded(message)))


async def open_get(case: Case, headers: Mapping[str, str | None] | None = None) -> HttpExchange:
    """Open the stream of GET (legacy), and return its exchange after the head. The caller closes it."""
    http = http_of(case)
    given: dict[str, str | None] = {**http.get_headers, **(headers or {})}
    return await opened(case, http.exchange("GET", given))


async def opened(case: Case, exchange: HttpExchange) -> HttpExchange:
    """Send a request and wait for the head of its response; raise Skip if there is none."""
    try:
        await exchange.send(within=case.timeouts.response)
        async with asyncio.timeout(case.timeouts.response):
            await exchange.read_head()
    except (ChannelBroken, TimeoutError) as error:
        exchange.close()
        raise Skip(str(error) or f"no response within {case.timeouts.response:g} s") from error
    return exchange


def encoded(message: Any) -> bytes:
    """Return the body of a message."""
    return encode_line(message)[:-1]


async def read_for(exchange: HttpExchange, seconds: float) -> None:
    """Read a stream for some time, or to its end."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await exchange.read_all()


async def read_event(case: Case, exchange: HttpExchange) -> bool:
    """Read a stream up to its next event. Return whether there was one."""
    with suppress(TimeoutError):
        async with asyncio.timeout(case.timeouts.response):
            while (found := await exchange.read_more()) is not None:
                if found:
                    return True
    return False


async def speaks_legacy(case: Case) -> bool:
    """Return whether the server speaks the newest legacy revision."""
    return (await case.target.attempt(LEGACY[-1])).opening is not None


async def speaks_modern(case: Case) -> bool:
    """Return whether the server speaks the newest modern revision."""
    return (await case.target.attempt(MODERN[-1])).opening is not None


class RepeatedCall(Struct, frozen=True, kw_only=True):
    """A call of a tool with an argument that is repeated in a header."""

    call: SafeCall
    header: ParamHeader
    value: Any
    kind: str  # the type in the schema

    def with_value(self, value: Any) -> dict[str, Any]:
        """Return the params of the call with another argument."""
        return {"name": self.call.name, "arguments": _replaced(dict(self.call.arguments), self.header.path, value)}


def _replaced(arguments: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    key, *rest = path
    inner = _replaced(dict(members(arguments.get(key))), tuple(rest), value) if rest else value
    return {**arguments, key: inner}


_SAMPLES = {"string": "text", "integer": 42, "boolean": True}


def repeated_calls(case: Case) -> list[RepeatedCall]:
    """Return the arguments with ``x-mcp-header`` of tools that may be called; raise Skip if there are none."""
    found = []
    for call in case.safe_calls:
        schema = call.tool.get("inputSchema")
        with suppress(InvalidAnnotation):
            for header in param_headers(schema):
                at = schema
                for key in header.path:
                    at = members(members(at).get("properties")).get(key)
                kind = str(members(at).get("type"))
                if call.takes_other_arguments and kind in _SAMPLES:
                    value = members(at).get("enum", [_SAMPLES[kind]])[0]
                    found.append(RepeatedCall(call=call, header=header, value=value, kind=kind))
    if not found:
        raise Skip("no tool with x-mcp-header may be called; name one with --allow-tool")
    return found
