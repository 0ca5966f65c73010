"""Content blocks and icons, from the side of a server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from twopipes._protocol.revisions import META_CLIENT_INFO, SAMPLING_CONTENT_TYPES
from twopipes._tools.check.content.blocks import faults_of_block, faults_of_icon
from twopipes._tools.check.fake_server import ClientMessage, FakeServer, scenario
from twopipes._tools.check.healthy_responses import text
from twopipes._tools.check.quotes import sent_with

_QUESTION = {"messages": [{"role": "user", "content": {"type": "text", "text": "Say something."}}], "maxTokens": 100}
_MENDS = {
    "CT-01": "Write blocks as the schema of the revision has them: a type, and the members that belong to it.",
    "CT-03": "Encode bytes as base64 (the standard alphabet, padded, without line breaks) and name their MIME type.",
    "CT-04": "Keep to audience (user, assistant), priority (0 to 1) and lastModified (such as 2025-01-12T15:00:58Z).",
}


@scenario("CT-01", "CT-03", "CT-04")
async def asks_for_a_sample_and_reads_it(fake: FakeServer) -> None:
    """A tool asks the client's model to say something: what comes back is made of well-made blocks."""
    samples: list[Any] = []

    def keep(answers: Any) -> Any:
        samples.append(answers.get("sample"))
        return text("Thank you.")

    ask = fake.asking({"sample": ("sampling/createMessage", _QUESTION)}, keep)

    def sample(message: ClientMessage) -> Any:
        return ask(message) if "sampling" in message.connection.client_capabilities else text("There is no user to ask.")

    fake.add_tool("sample", sample)
    await fake.client_exited()
    blocks = [block for sampled in samples if isinstance(sampled, dict) for block in _blocks(sampled.get("content"))]
    if not blocks:
        fake.give_up("the client gave no sample, the only content that clients send")
    for block in blocks:
        found = list(faults_of_block(block, fake.revision, SAMPLING_CONTENT_TYPES))
        for rule in ("CT-01", *_also_about(block)):
            what = next((what for broken, what in found if broken == rule), "")
            fake.expect(rule, not what, f"in the sample of the client {what}", fix=_MENDS[rule], about=_said_last(fake))
    fake.give_up("no sample of the client had anything of the kind")


def _blocks(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [content]


def _also_about(block: Any) -> Iterator[str]:
    if isinstance(block, dict) and "data" in block:
        yield "CT-03"
    if isinstance(block, dict) and "annotations" in block:
        yield "CT-04"


def _said_last(fake: FakeServer) -> ClientMessage | None:
    """The line with the sample in it: a response, or the call that was sent again."""
    found = [
        message
        for message in fake.received_lines
        if (message.is_response and "result" in message.members) or "inputResponses" in message.params
    ]
    return found[-1] if found else None


@scenario("CT-06")
async def looks_at_the_icons_of_the_client(fake: FakeServer) -> None:
    """Whatever icons the client has are what the schema says."""
    await fake.client_exited()
    for message in fake.requests():
        info = message.params.get("clientInfo") if message.method == "initialize" else message.meta.get(META_CLIENT_INFO)
        icons = info.get("icons") if isinstance(info, dict) else None
        if icons is None:
            continue
        faults = [what for icon in icons for _, what in faults_of_icon(icon, "the client")] if isinstance(icons, list) else None
        fake.expect(
            "CT-06",
            faults == [],
            faults[0] if faults else "icons of the client is no array",
            fix="Give each icon a src; sizes is an array of strings, theme is light or dark.",
            about=message,
        )
    fake.give_up("the client has no icons")


@scenario("CT-07")
async def offers_icons_at_unsafe_addresses(fake: FakeServer) -> None:
    """Icons at ftp:, ws:, file: and javascript: are never fetched, and do not spoil the list."""
    visited: list[str] = []

    def visit(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visited.append(str(writer.get_extra_info("sockname")))
        writer.close()

    # The list waits for it: where it listens has to be known before it is told.
    opening = asyncio.get_running_loop().create_task(asyncio.start_server(visit, "127.0.0.1", 0))

    async def decorated(_said: ClientMessage) -> Any:
        port = (await opening).sockets[0].getsockname()[1]
        unsafe = (f"ftp://127.0.0.1:{port}/i.png", f"ws://127.0.0.1:{port}/i.png", "file:///etc/hosts", "javascript:alert(1)")
        icons = [{"src": src, "mimeType": "image/png"} for src in unsafe]
        return {"tools": [{**tool, "icons": icons} for tool in fake.healthy.tools]}

    fake.on["tools/list"] = decorated
    try:
        await fake.wait_for("tools/list")
        await fake.client_exited()
        await asyncio.sleep(fake.timeouts.grace)  # whoever has just come is let in
        fake.expect(
            "CT-07",
            not visited,
            "the client went to an address with ftp: or ws: that a tool has for its icon",
            fix="Fetch icons from https: alone, and take data: as it is; leave all others.",
            about=sent_with(fake, b"javascript:"),
        )
        fake.expect(
            "CT-07",
            not fake.what_differs,
            f"when tools had icons at ftp:, ws:, file: and javascript:, {fake.what_differs}",
            fix="Leave out an icon that cannot be shown, and keep the tool.",
            about=sent_with(fake, b"javascript:"),
        )
    finally:
        (await opening).close()


@scenario("CT-08")
async def gives_a_block_of_an_unknown_type(fake: FakeServer) -> None:
    """Every tool gives a block of an unknown type beside a text: the client goes on."""
    for name in list(fake.healthy.results):
        known = {"type": "text", "text": "Hello."}
        fake.healthy.results[name] = {"content": [{"type": "hologram", "shape": "cube"}, known]}
    await fake.wait_for("tools/call")
    await fake.client_exited()
    fake.expect(
        "CT-08",
        not fake.what_differs,
        f"when the results of tools had a block of an unknown type beside a text, {fake.what_differs}",
        fix="Keep a block of an unknown type as it is, or leave it out, and use the others.",
        about=sent_with(fake, b"hologram"),
    )
