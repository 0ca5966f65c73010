"""Metadata, from the side of a server."""

from __future__ import annotations

from typing import Any

from twopipes._protocol.revisions import META_CAPABILITIES
from twopipes._tools.check.fake_server import ClientMessage, FakeServer, scenario
from twopipes._tools.check.metadata.shapes import key_faults, metas, trace_fault, traces
from twopipes._tools.check.questions import members
from twopipes._tools.check.verdict import Skip

_MEND = "Read the keys that are known; leave all others, and what cannot be read, alone."


@scenario("MT-01", "MT-02", "MT-03", "MT-05", "MT-07")
async def looks_at_metadata(fake: FakeServer) -> None:
    """Nothing special: every _meta that the client sends is looked at."""
    await fake.client_exited()
    found = [(message, where, meta) for message in fake.received_lines for where, meta in metas(message.members)]
    if not found:
        raise Skip("nothing that the client said has a _meta")
    traced = False
    for message, where, meta in found:
        fake.expect("MT-07", isinstance(meta, dict), f"{where} is {meta!r}, and no object", about=message)
        extensions = members(members(members(meta).get(META_CAPABILITIES)).get("extensions"))
        faults = list(key_faults(meta, fake.revision, extensions=extensions))
        bad = next((key for fault, key in faults if fault == "grammar"), None)
        fake.expect("MT-01", bad is None, f"the key {bad!r} of {where} is not well formed", about=message)
        taken = next((key for fault, key in faults if fault == "reserved"), None)
        for rule in ("MT-02", "MT-03"):
            why = f"the key {taken!r} of {where} has a prefix that is the protocol's own"
            fake.expect(rule, taken is None, why, fix="Use a prefix of your own domain, as in com.example/key.", about=message)
        for key, value in traces(meta).items():
            traced = True
            why = f"{key} in {where} is {value!r}, which the W3C does not know"
            fake.expect("MT-05", not trace_fault(key, value), why, fix="Pass on what the tracing library gives.", about=message)
    if not traced:
        fake.skip("MT-05", "the client sends no trace context")


def _lay_over(fake: FakeServer, meta: dict[str, Any]) -> None:
    """Puts more into the ``_meta`` of the list of tools."""

    def listed(_said: ClientMessage) -> Any:
        return {"tools": fake.healthy.tools, "_meta": meta}

    fake.on["tools/list"] = listed


@scenario("MT-04")
async def uses_keys_of_the_future(fake: FakeServer) -> None:
    """The list of tools has a key of the protocol's own in its _meta that means nothing yet."""
    _lay_over(fake, {"io.modelcontextprotocol/future": [1, {"deep": None}]})
    await fake.wait_for("tools/list")
    await fake.client_exited()
    fake.expect("MT-04", not fake.what_differs, f"after a reserved key that has no meaning yet, {fake.what_differs}", fix=_MEND)


@scenario("MT-06")
async def sends_metadata_that_nobody_can_read(fake: FakeServer) -> None:
    """The list of tools has broken trace context and unknown keys in its _meta."""
    _lay_over(fake, {"traceparent": "junk", "tracestate": "=,=", "com.example/own": {"a": [None]}, "unknown": True})
    await fake.wait_for("tools/list")
    await fake.client_exited()
    fake.expect("MT-06", not fake.what_differs, f"after unreadable metadata, {fake.what_differs}", fix=_MEND)
