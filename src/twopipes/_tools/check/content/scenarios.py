"""Content blocks and icons of clients, and what they do with those of a server."""

from __future__ import annotations

import asyncio
from typing import Any

from twopipes._protocol.revisions import META_CLIENT_INFO, SAMPLING_CONTENT_TYPES
from twopipes._tools.check.asking_tools import AskingTool, Round, sampling
from twopipes._tools.check.content.blocks import faults_of_block, judge_faults, judge_icons, rules_about
from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.messages import ClientMessage, members
from twopipes._tools.check.scenario import scenario


@scenario("CT-01", "CT-03", "CT-04")
async def asks_for_a_sample(fake: FakeServer) -> None:
    """Asks the client's model for a message, and looks at its blocks."""
    tool = AskingTool(fake, "sample", Round(questions={"sample": sampling("Say something.")}))
    await fake.client_exited()
    if "sample" not in tool.replies or not isinstance(tool.replies["sample"].result, dict):
        fake.give_up("the client sent no sample, the only content that clients send")
    reply = tool.replies["sample"]
    content = reply.result.get("content")
    for block in content if isinstance(content, list) else [content]:
        faults = [(rule, f"in a sample, {what}") for rule, what in faults_of_block(block, fake.revision, SAMPLING_CONTENT_TYPES)]
        judge_faults(fake, ("CT-01", *rules_about(block)), faults, reply.about)
    fake.give_up("no sample of the client had anything of the kind")


@scenario("CT-06")
async def looks_at_the_icons_of_the_client(fake: FakeServer) -> None:
    """Looks at the icons in the clientInfo."""
    await fake.client_exited()
    for message in fake.requests():
        info = message.params.get("clientInfo") if message.method == "initialize" else message.meta.get(META_CLIENT_INFO)
        judge_icons(fake, members(info), "the client", message)
    fake.give_up("the client has no icons")


@scenario("CT-07")
async def lists_icons_at_unsafe_addresses(fake: FakeServer) -> None:
    """Lists tools with icons at ftp:, ws:, file: and javascript: addresses."""
    visitors: list[asyncio.StreamWriter] = []

    def visit(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visitors.append(writer)
        writer.close()

    # The scenario runs concurrently with the client, so the list waits for the port.
    opening = asyncio.get_running_loop().create_task(asyncio.start_server(visit, "127.0.0.1", 0))

    async def with_icons(_message: ClientMessage) -> Any:
        port = (await opening).sockets[0].getsockname()[1]
        unsafe = (f"ftp://127.0.0.1:{port}/i.png", f"ws://127.0.0.1:{port}/i.png", "file:///etc/hosts", "javascript:alert(1)")
        icons = [{"src": src, "mimeType": "image/png"} for src in unsafe]
        return {"tools": [{**tool, "icons": icons} for tool in fake.healthy.tools]}

    fake.on["tools/list"] = with_icons
    try:
        await fake.exited_after("tools/list")
        await asyncio.sleep(fake.timeouts.grace)  # a connection may still wait to be accepted
        quote = fake.sent_with("javascript:")
        fake.expect("CT-07", not visitors, "the client connected to the ftp: or ws: address of an icon", about=quote)
        fake.expect_as_usual("CT-07", "when tools had icons at ftp:, ws:, file: and javascript: addresses", about=quote)
    finally:
        (await opening).close()


@scenario("CT-08")
async def returns_a_block_of_an_unknown_type(fake: FakeServer) -> None:
    """Returns a block of an unknown type beside a text from every tool."""
    content = [{"type": "hologram", "shape": "cube"}, {"type": "text", "text": "Hello."}]
    fake.healthy.results |= {name: {"content": content} for name in fake.healthy.results}
    await fake.exited_after("tools/call")
    fake.expect_as_usual("CT-08", "when results had a block of an unknown type beside a text", about=fake.sent_with("hologram"))
