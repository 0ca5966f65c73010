"""The examination of a server at a URL: the network, TLS, HTTP, and the two openings."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import msgspec

from twopipes._protocol import types as protocol
from twopipes._protocol.dialect import dialect
from twopipes._protocol.revisions import LATEST_LEGACY, LATEST_MODERN, is_modern
from twopipes._tools.doctor.display_http import HttpReport
from twopipes._tools.doctor.examination import DOCTOR, DoctorTimeouts, Opening, interpret_opening, opening_request
from twopipes._tools.doctor.http_client import HttpClient, failure_of, speaks_tls
from twopipes._tools.doctor.http_observations import HttpFailure, HttpObservations, HttpReply
from twopipes._tools.doctor.http_server import EVENTS, JSON, HttpServer
from twopipes._tools.doctor.listing import request_lists
from twopipes._tools.doctor.observations import Attempt, Listed, Purpose, Reply
from twopipes._tools.doctor.stdout_reader import reply_to

# The revisions with Streamable HTTP before the latest one with a handshake.
_OLDER: Final = ("2025-06-18", "2025-03-26")
# Where MCP endpoints usually are.
_USUAL_PATHS: Final = ("/mcp", "/mcp/", "/sse", "/")
# Seconds for the first event of a stream: an acknowledgement, which a server sends at once.
_STREAM_TIMEOUT: Final = 5.0
_METADATA: Final = re.compile(r'resource_metadata="?([^",\s]+)')


class HttpExamination:
    """Examines one URL, and prints each step to ``report``, if given."""

    def __init__(self, url: str, timeouts: DoctorTimeouts, headers: Mapping[str, str], report: HttpReport | None = None) -> None:
        self._url = url
        self._timeouts = timeouts
        self._client = HttpClient(headers)
        self._report = report
        self._attempts: list[Attempt] = []
        self._skipped: list[str] = []
        self._addresses: tuple[str, ...] = ()
        self._metadata: dict[str, Any] | None = None
        self._elsewhere: list[str] = []

    async def run(self) -> HttpObservations:
        """Run the examination."""
        self._deadline = asyncio.get_running_loop().time() + self._timeouts.total
        failed = await self._look_up()
        if failed is None:
            await self._open_in_both_eras()
        seen = HttpObservations(
            url=self._url,
            addresses=self._addresses,
            replies=(*((failed,) if failed is not None else ()), *self._client.replies),
            attempts=tuple(self._attempts),
            metadata=self._metadata,
            elsewhere=tuple(self._elsewhere),
            has_token=self._client.has_token,
            slow=self._timeouts.slow,
            out_of_time=tuple(self._skipped),
        )
        if self._report is not None and failed is not None:
            self._report.http_failed(failed)
        return seen

    async def _look_up(self) -> HttpReply | None:
        parts = urlsplit(self._url)
        try:
            async with asyncio.timeout(self._timeouts.answer):
                found = await asyncio.get_running_loop().getaddrinfo(parts.hostname, parts.port or 0)
        except (OSError, UnicodeError) as error:
            failure = failure_of(error) if isinstance(error, OSError) else HttpFailure("lookup", str(error))
            if isinstance(error, TimeoutError):
                failure = HttpFailure("lookup", f"no answer within {self._timeouts.answer:g} s")
            return HttpReply(purpose="lookup", method="", url=self._url, failure=failure)
        self._addresses = tuple(dict.fromkeys(str(each[4][0]) for each in found))
        if self._report is not None:
            self._report.looked_up(parts.hostname or "", self._addresses)
        return None

    async def _open_in_both_eras(self) -> None:
        modern = await self._try("discover", LATEST_MODERN)
        if modern is None:
            return
        first = self._client.replies[0]
        if first.failure is not None:
            await self._check_for_tls(first)
            return
        legacy = await self._try("handshake", LATEST_LEGACY)
        if not modern.works and (legacy is None or not legacy.works):
            await self._investigate()
        elif legacy is not None and legacy.works and not self._timeouts.quick:
            for revision in _OLDER:
                await self._try("revision", revision)

    async def _try(self, purpose: Purpose, revision: str) -> Attempt | None:
        left = self._deadline - asyncio.get_running_loop().time()
        if left <= 0:
            self._skipped.append(f"{purpose} {revision}")
            return None
        if self._report is not None:
            self._report.begins_http(purpose, revision)
        server = HttpServer(self._client, self._url, revision)
        seconds = min(self._timeouts.answer, left)
        response = await server.request(*opening_request(revision), seconds=seconds)
        assert server.reply is not None
        reply = server.reply
        opened = interpret_opening(response, revision, gone=False)
        listed, replies = await self._use_like_a_host(server, purpose, revision, opened, seconds)
        attempt = Attempt(
            purpose=purpose,
            revision=revision,
            outcome=opened.outcome,
            chosen=opened.chosen,
            started_in=reply.connected,
            answered=None if response is None else response.at,
            answers=(opened.reply, *replies),
            name=opened.name,
            listed=listed,
            strays=tuple(server.messages.strays),
            stray_count=server.messages.stray_count,
        )
        self._attempts.append(attempt)
        if self._report is not None:
            listed_before = any(each.listed is not None for each in self._attempts[:-1])
            self._report.tried_http(attempt, reply, self._client.replies, with_lists=not listed_before)
        return attempt

    async def _use_like_a_host(
        self, server: HttpServer, purpose: Purpose, revision: str, opened: Opening, seconds: float
    ) -> tuple[Listed | None, list[Reply]]:
        """Send what a host sends after connecting, without calling anything."""
        if opened.capabilities is None:
            return None, []
        replies: list[Reply] = []
        chosen = revision
        if not is_modern(revision):
            chosen = opened.chosen[0]
            server.agree(chosen)
            await server.notify("notifications/initialized", seconds=seconds)  # LC-04
            replies.append(reply_to("ping", await server.request("ping", {}, seconds=seconds)))
        listed = None
        if purpose != "revision":
            listed, more = await request_lists(server, dialect(chosen), opened.capabilities, DOCTOR, seconds=seconds)
            replies += more
            await self._open_stream(server, chosen)
        await server.end(seconds=seconds)
        return listed, replies

    async def _open_stream(self, server: HttpServer, revision: str) -> None:
        """Open a stream and wait for its first event."""
        seconds = min(_STREAM_TIMEOUT, self._timeouts.answer)
        if not is_modern(revision):
            # Nothing has to come on the stream of a session, so a short time is enough.
            await server.open_stream(seconds=min(1.0, seconds))
            return
        meta = dict(dialect(revision).client_meta(DOCTOR, protocol.ClientCapabilities()))
        wanted = protocol.SubscriptionFilter(tools_list_changed=True)
        await server.listen(protocol.ListenParams(notifications=wanted, meta=meta), seconds=seconds)

    # When nothing works

    async def _check_for_tls(self, reply: HttpReply) -> None:
        """Find out whether a server that does not respond to plain HTTP speaks TLS."""
        parts = urlsplit(self._url)
        if parts.scheme == "http" and reply.failure is not None and reply.failure.kind in {"closed", "not HTTP"}:
            await self._replace_if_tls(reply)
        if self._report is not None:
            self._report.http_failed(self._client.replies[0])

    async def _replace_if_tls(self, reply: HttpReply) -> bool:
        parts = urlsplit(self._url)
        is_tls = await speaks_tls(parts.hostname or "", parts.port or 80, seconds=self._timeouts.answer)
        if is_tls:
            failure = HttpFailure("needs TLS", reply.failure.detail if reply.failure is not None else reply.status_line)
            self._client.replies[0] = msgspec.structs.replace(reply, failure=failure)
        return is_tls

    async def _investigate(self) -> None:
        reply = self._client.replies[0]
        if reply.status == 400 and urlsplit(self._url).scheme == "http" and await self._replace_if_tls(reply):
            return  # some servers respond to plain HTTP on a port for TLS
        if reply.status in {401, 403}:
            await self._read_metadata(reply)
        elif reply.status in {404, 405, 406} or reply.kind == "text/html":
            await self._look_elsewhere()

    async def _read_metadata(self, reply: HttpReply) -> None:
        """Fetch the metadata of the protected resource: from the URL of the challenge, or from the usual one."""
        named = _METADATA.search(reply.challenge)
        parts = urlsplit(self._url)
        usual = urlunsplit((parts.scheme, parts.netloc, f"/.well-known/oauth-protected-resource{parts.path}", "", ""))
        url = named[1] if named is not None else usual
        if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
            return

        def take(_status: int, data: bytes) -> bool:
            try:
                self._metadata = msgspec.json.decode(data, type=dict[str, Any])
            except msgspec.MsgspecError:
                return False
            return True

        # Another client: a token must not go to another host.
        client = HttpClient({})
        got = await client.send("metadata", "GET", url, headers={"Accept": JSON}, seconds=self._timeouts.answer, on_message=take)
        self._client.replies.append(got)

    async def _look_elsewhere(self) -> None:
        """Try the usual paths, and the transport of 2024-11-05."""
        parts = urlsplit(self._url)
        accept = {"Accept": EVENTS}
        seconds = min(_STREAM_TIMEOUT, self._timeouts.answer)
        await self._client.send("old transport", "GET", self._url, headers=accept, seconds=seconds, on_message=lambda *_: True)
        for path in _USUAL_PATHS:
            if path == parts.path:
                continue
            url = urlunsplit((parts.scheme, parts.netloc, path, "", ""))
            server = HttpServer(self._client, url, LATEST_LEGACY)
            response = await server.request(*opening_request(LATEST_LEGACY), seconds=seconds)
            if response is not None and (response.result is not None or response.error is not None):
                self._elsewhere.append(url)
                if response.result is not None:
                    server.agree(LATEST_LEGACY)
                    await server.end(seconds=seconds)
