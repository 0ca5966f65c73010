"""Metadata, from the side of a server."""

from __future__ import annotations

from typing import Any

from twopipes._protocol.revisions import META_CAPABILITIES
from twopipes._tools.check.declared_questions import members
from twopipes._tools.check.fake_server import Pose, Said, scenario
from twopipes._tools.check.metadata.shapes import key_faults, metas, trace_fault, traces
from twopipes._tools.check.verdict import Skip

_MEND = "Read the keys that are known; leave all others, and what cannot be read, alone."


@scenario("MT-01", "MT-02", "MT-03", "MT-05", "MT-07")
async def looks_at_metadata(pose: Pose) -> None:
    """Nothing special: every _meta that the client sends is looked at."""
    await pose.left()
    found = [(said, where, meta) for said in pose.heard_lines for where, meta in metas(said.members)]
    if not found:
        raise Skip("nothing that the client said has a _meta")
    traced = False
    for said, where, meta in found:
        pose.expect("MT-07", isinstance(meta, dict), f"{where} is {meta!r}, and no object", about=said)
        extensions = members(members(members(meta).get(META_CAPABILITIES)).get("extensions"))
        faults = list(key_faults(meta, pose.revision, extensions=extensions))
        bad = next((key for fault, key in faults if fault == "grammar"), None)
        pose.expect("MT-01", bad is None, f"the key {bad!r} of {where} is not well formed", about=said)
        taken = next((key for fault, key in faults if fault == "reserved"), None)
        for rule in ("MT-02", "MT-03"):
            why = f"the key {taken!r} of {where} has a prefix that is the protocol's own"
            pose.expect(rule, taken is None, why, mend="Use a prefix of your own domain, as in com.example/key.", about=said)
        for key, value in traces(meta).items():
            traced = True
            why = f"{key} in {where} is {value!r}, which the W3C does not know"
            pose.expect("MT-05", not trace_fault(key, value), why, mend="Pass on what the tracing library gives.", about=said)
    if not traced:
        pose.skip("MT-05", "the client sends no trace context")


def _lay_over(pose: Pose, meta: dict[str, Any]) -> None:
    """Puts more into the ``_meta`` of the list of tools."""

    def listed(_said: Said) -> Any:
        return {"tools": pose.posture.tools, "_meta": meta}

    pose.on["tools/list"] = listed


@scenario("MT-04")
async def uses_keys_of_the_future(pose: Pose) -> None:
    """The list of tools has a key of the protocol's own in its _meta that means nothing yet."""
    _lay_over(pose, {"io.modelcontextprotocol/future": [1, {"deep": None}]})
    await pose.heard("tools/list")
    await pose.left()
    pose.expect("MT-04", not pose.what_differs, f"after a reserved key that has no meaning yet, {pose.what_differs}", mend=_MEND)


@scenario("MT-06")
async def sends_metadata_that_nobody_can_read(pose: Pose) -> None:
    """The list of tools has broken trace context and unknown keys in its _meta."""
    _lay_over(pose, {"traceparent": "junk", "tracestate": "=,=", "com.example/own": {"a": [None]}, "unknown": True})
    await pose.heard("tools/list")
    await pose.left()
    pose.expect("MT-06", not pose.what_differs, f"after metadata that nobody can read, {pose.what_differs}", mend=_MEND)
