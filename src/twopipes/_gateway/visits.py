"""The pages that users are asked to visit, and the calls that a legacy server refuses until that is done."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from msgspec import DecodeError, Struct, ValidationError, convert
from msgspec.json import Decoder

from twopipes._protocol.passed_questions import Question, plain
from twopipes._protocol.types import ElicitationCompleteParams, ElicitParams, ElicitRequest
from twopipes._server.call_runner import CallRunner
from twopipes.errors import UrlsRequired

_decode_completion = Decoder(ElicitationCompleteParams).decode
# Pages whose completion can still be reported.
_MAX_VISITS: Final = 1000
# Seconds for the server to report that a visit is complete, which it need not do. Many hosts wait 30 or 60 s for a response.
_COMPLETE_WITHIN: Final = 15.0


class _Visit(Struct, eq=False):
    """A page that a user was asked to visit: the connection to the host, and whether the visit is complete."""

    runner: CallRunner
    is_complete: asyncio.Event


class Visits:
    """The visits that one server has asked for, by the ids of the questions."""

    def __init__(self) -> None:
        self._visits: OrderedDict[str, _Visit] = OrderedDict()

    def note(self, question: Question, runner: CallRunner) -> None:
        """Remember which host is asked to visit a page, if that is the question."""
        asked = plain(question)
        identity = asked.params.elicitation_id if isinstance(asked, ElicitRequest) else None
        if identity is not None:
            self._visits[identity] = _Visit(runner, asyncio.Event())
            if len(self._visits) > _MAX_VISITS:
                self._visits.popitem(last=False)

    def completed(self, raw: Any, hosts: list[CallRunner]) -> list[CallRunner]:
        """Handle the report that a visit is complete. Return who is notified: the host that was asked, or the only one (EL-12)."""
        try:
            visit = self._visits.pop(_decode_completion(raw).elicitation_id, None)
        except (DecodeError, TypeError):
            return []
        if visit is None:
            return hosts if len(hosts) == 1 else []
        visit.is_complete.set()
        return [visit.runner] if visit.runner in hosts else []

    async def wait_for(self, pages: Sequence[ElicitRequest]) -> None:
        """Wait until the server reports that these visits are complete, or long enough."""
        asked = {page.params.elicitation_id for page in pages}
        visits = [visit for identity, visit in self._visits.items() if identity in asked]
        with suppress(TimeoutError):
            async with asyncio.timeout(_COMPLETE_WITHIN):
                for visit in visits:
                    await visit.is_complete.wait()


def required_pages(error: UrlsRequired) -> list[ElicitRequest]:
    """Return the pages that an error asks the user to visit; none if one of them is invalid."""
    elicitations: list[Mapping[str, Any]] = error.data["elicitations"]
    try:
        pages = [convert(each, ElicitParams) for each in elicitations]
    except ValidationError:
        return []
    is_valid = all(page.mode == "url" and page.url is not None and page.elicitation_id is not None for page in pages)
    return [ElicitRequest(page) for page in pages] if is_valid else []


def urls_of(pages: Sequence[ElicitRequest]) -> set[str | None]:
    """Return the addresses of pages."""
    return {page.params.url for page in pages}
