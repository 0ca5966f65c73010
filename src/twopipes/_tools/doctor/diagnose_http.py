"""Turns observations about a URL into diagnoses, without side effects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import urljoin, urlsplit

from twopipes._codes import METHOD_NOT_FOUND
from twopipes._tools.doctor.codes import Diagnosis, advice, diagnosis
from twopipes._tools.doctor.diagnose import diagnose_eras, diagnose_lists, in_order
from twopipes._tools.doctor.http_observations import FailureKind, HttpObservations, HttpReply

_CODES: Final[dict[FailureKind, str]] = {
    "lookup": "host-not-found",
    "refused": "connection-refused",
    "unreachable": "host-unreachable",
    "certificate expired": "certificate-expired",
    "certificate not trusted": "certificate-not-trusted",
    "certificate of another host": "certificate-of-another-host",
    "TLS failed": "tls-failed",
    "not TLS": "plain-http-port",
    "needs TLS": "tls-port",
    "closed": "not-http",
    "not HTTP": "not-http",
}
_MESSAGES: Final = {"application/json", "text/event-stream"}
# Diagnoses of eras that do not apply: over HTTP a client falls back on the status of the response.
_ONLY_FOR_PIPES: Final = {"probe-unanswered", "dies-on-probe"}


def diagnose_http(seen: HttpObservations) -> list[Diagnosis]:
    """Return what is wrong with a server at a URL: errors, then warnings, then notes."""
    found: dict[str, Diagnosis] = {}
    for each in _diagnose(seen):
        found.setdefault(each.code, each)
    return in_order(found.values())


def _diagnose(seen: HttpObservations) -> Iterator[Diagnosis]:
    failed = next((reply for reply in seen.replies[:1] if reply.failure is not None), None)
    if failed is not None:
        yield _of_failure(failed)
        return
    handshake, probe = seen.of("handshake"), seen.of("discover")
    opened = next((each for each in (probe, handshake) if each is not None and each.works), None)
    if opened is None:
        # The response to initialize, which every server knows, says more than that to server/discover.
        reply = seen.reply("initialize") or seen.reply("server/discover")
        if reply is not None and not _is_about_mcp(seen, reply):
            yield from _of_reply(seen, reply)
            return
    if handshake is not None:
        yield from (each for each in diagnose_eras(seen.attempts, handshake, probe) if each.code not in _ONLY_FOR_PIPES)
    if opened is not None:
        yield from diagnose_lists(opened)
        yield from _of_working_server(seen)
    if seen.out_of_time:
        yield diagnosis("out-of-time", f"there was no time left for: {', '.join(seen.out_of_time)}")


def _of_failure(reply: HttpReply) -> Diagnosis:
    assert reply.failure is not None
    failure = reply.failure
    parts = urlsplit(reply.url)
    where = parts.netloc.rpartition("@")[2]
    if failure.kind == "timeout":
        code = "host-unreachable" if reply.connected is None else "no-http-response"
    else:
        code = _CODES[failure.kind]
    cause, fix = advice(code, parts.hostname or where)
    return diagnosis(code, f"{where}: {failure.detail}", cause=cause, fix=fix)


def _is_about_mcp(seen: HttpObservations, reply: HttpReply) -> bool:
    """Whether the response to an opening is a message, valid or not, and not only the text of an HTTP error."""
    purpose = "handshake" if reply.purpose == "initialize" else "discover"
    attempt = next((each for each in seen.attempts if each.purpose == purpose), None)
    if attempt is None or attempt.outcome in {"silent", "gone"} or reply.status in {401, 403}:
        return False
    # A server without that method responds with 404 as well.
    return reply.status != 404 or attempt.answers[0].code == METHOD_NOT_FOUND


def _of_reply(seen: HttpObservations, reply: HttpReply) -> Iterator[Diagnosis]:
    """Yield why there is no message in the response to an opening."""
    what = f"POST {reply.url}: {reply.status_line}"
    excerpt = (reply.excerpt,) if reply.excerpt else ()
    old = seen.reply("old transport")
    match reply.status:
        case None:
            yield _of_failure(reply)
        case 301 | 302 | 303 | 307 | 308:
            target = urljoin(reply.url, reply.location) if reply.location else "the new URL"
            cause, fix = advice("redirected", target)
            yield diagnosis("redirected", f"{what} to {reply.location}", cause=cause, fix=fix)
        case 401:
            code = "token-refused" if seen.has_token else "token-required"
            yield diagnosis(code, what, _challenge(seen, reply))
        case 403:
            yield diagnosis("forbidden", what, (*_challenge(seen, reply), *excerpt))
        case 404 | 405 | 406 if old is not None and old.event_type == "endpoint":
            yield diagnosis("old-sse-transport", f"{what}; GET opens a stream that names another endpoint")
        case 404 | 405:
            code = "no-endpoint" if reply.status == 404 else "post-not-allowed"
            fix = f"use {seen.elsewhere[0]}, which responds like an MCP endpoint" if seen.elsewhere else advice(code)[1]
            yield diagnosis(code, what, excerpt, cause=advice(code)[0], fix=fix)
        case 502 | 503 | 504:
            by = f" from {reply.server}" if reply.server else ""
            yield diagnosis("gateway-error", what + by, excerpt)
        case status if status >= 400:
            yield diagnosis("http-error", what, excerpt)
        case _:
            yield from _of_other_content(seen, reply, excerpt)


def _of_other_content(seen: HttpObservations, reply: HttpReply, excerpt: tuple[str, ...]) -> Iterator[Diagnosis]:
    what = f"POST {reply.url}: {reply.status_line}"
    if reply.kind in {"text/html", "application/xhtml+xml"}:
        fix = f"use {seen.elsewhere[0]}, which responds like an MCP endpoint" if seen.elsewhere else None
        cause, usual = advice("html-instead-of-mcp")
        yield diagnosis("html-instead-of-mcp", f"{what} with a web page", excerpt, cause=cause, fix=fix or usual)
    elif reply.kind in _MESSAGES:
        yield diagnosis("not-mcp", f"{what} with {reply.kind}, but without a response to {reply.purpose}", excerpt)
    else:
        kind = f"the content type {reply.kind}" if reply.kind else "no content type"
        yield diagnosis("wrong-content-type", f"{what} with {kind}", excerpt)


def _challenge(seen: HttpObservations, reply: HttpReply) -> tuple[str, ...]:
    """Return the challenge of the server and the servers that issue tokens for it."""
    lines = [f"WWW-Authenticate: {reply.challenge}" if reply.challenge else "no WWW-Authenticate header"]
    servers = (seen.metadata or {}).get("authorization_servers")
    if isinstance(servers, list) and servers:
        lines.append(f"tokens are issued by {', '.join(map(str, servers))}")
    scopes = (seen.metadata or {}).get("scopes_supported")
    if isinstance(scopes, list) and scopes:
        lines.append(f"scopes: {', '.join(map(str, scopes))}")
    return tuple(lines)


def _of_working_server(seen: HttpObservations) -> Iterator[Diagnosis]:
    listen = seen.reply("subscriptions/listen")
    if listen is not None and listen.status == 200 and listen.kind == "text/event-stream" and listen.first_event is None:
        yield diagnosis(
            "stream-buffered",
            "the stream of subscriptions/listen opened, but its first event, which is sent at once, did not arrive",
        )
    elif listen is not None and listen.failure is not None and listen.failure.kind == "timeout":
        yield diagnosis("stream-buffered", "subscriptions/listen gets no response, although other requests do")
    probe = seen.reply("server/discover")
    if probe is not None and probe.status is not None and probe.status >= 500:
        yield diagnosis("probe-fails", f"server/discover gets {probe.status_line}", (probe.excerpt,) if probe.excerpt else ())
