"""Metadata of clients."""

from __future__ import annotations

from typing import Any

from twopipes._protocol.revisions import META_CAPABILITIES
from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.messages import members
from twopipes._tools.check.metadata.shapes import FUTURE, JUNK, judge_metas, metas
from twopipes._tools.check.scenario import scenario


@scenario("MT-01", "MT-02", "MT-03", "MT-05", "MT-07")
async def reads_metadata(fake: FakeServer) -> None:
    """A healthy server: each _meta that the client sends is judged."""
    await fake.client_exited()
    found = [(message, *each) for message in fake.received_lines for each in metas(message.members)]
    judge_metas(fake, [(message, where, meta, _extensions(meta)) for message, where, meta in found], "client")


def _extensions(meta: Any) -> dict[str, Any]:
    return members(members(members(meta).get(META_CAPABILITIES)).get("extensions"))


@scenario("MT-04")
async def uses_reserved_keys_without_a_meaning(fake: FakeServer) -> None:
    """The list of tools has a reserved key in its _meta that has no meaning yet."""
    fake.on["tools/list"] = lambda _: {"tools": fake.healthy.tools, "_meta": FUTURE}
    await fake.exited_after("tools/list")
    fake.expect_as_usual("MT-04", "after a reserved key without a meaning")


@scenario("MT-06")
async def sends_unreadable_metadata(fake: FakeServer) -> None:
    """The list of tools has invalid trace context and unknown keys in its _meta."""
    fake.on["tools/list"] = lambda _: {"tools": fake.healthy.tools, "_meta": JUNK}
    await fake.exited_after("tools/list")
    fake.expect_as_usual("MT-06", "after unreadable metadata")
