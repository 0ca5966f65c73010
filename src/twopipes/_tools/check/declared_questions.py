"""Questions that a fake server may ask, by the capabilities that the client declared, while a call waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from twopipes._protocol.revisions import CLIENT_CAPABILITIES
from twopipes._tools.check.fake_server import ClientMessage, FakeServer

_FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

QUESTIONS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "roots": ("roots/list", {}),
    "sampling": (
        "sampling/createMessage",
        {"messages": [{"role": "user", "content": {"type": "text", "text": "Say hello."}}], "maxTokens": 10},
    ),
    "elicitation": ("elicitation/create", {"message": "Who are you?", "requestedSchema": _FORM}),
}
"""By capability: the method and the params of a question that a client with this capability can answer."""


def elicitation_modes(client_capabilities: Mapping[str, Any]) -> set[str]:
    """Return the modes of elicitation that a client declares. An empty capability means forms (CP-04)."""
    declared = client_capabilities.get("elicitation")
    if not isinstance(declared, dict):
        return set()
    return {mode for mode in ("form", "url") if mode in declared} or ({"form"} if not declared else set())


def question_for(client_capabilities: Mapping[str, Any], revision: str) -> tuple[str, dict[str, Any]] | None:
    """Return a question that a client declares to answer; ``None`` if it declares none."""
    for capability, question in QUESTIONS.items():
        is_declared = isinstance(client_capabilities.get(capability), dict) and CLIENT_CAPABILITIES[capability].has(revision)
        if is_declared and (capability != "elicitation" or "form" in elicitation_modes(client_capabilities)):
            return question
    return None


@asynccontextmanager
async def open_call(fake: FakeServer) -> AsyncIterator[ClientMessage]:
    """Wait for a call of a tool, and delay the responses to all calls until the end of the block."""
    done = asyncio.Event()

    async def wait(_message: ClientMessage) -> None:
        await done.wait()

    fake.on["tools/call"] = wait
    try:
        yield await fake.wait_for("tools/call")
    finally:
        done.set()
