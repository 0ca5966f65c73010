"""Apps and extensions of clients."""

from __future__ import annotations

from typing import Any

from twopipes._protocol.revisions import META_CAPABILITIES
from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.healthy_responses import text
from twopipes._tools.check.messages import ClientMessage, members
from twopipes._tools.check.scenario import scenario
from twopipes._tools.check.verdict import Skip

_UI = "io.modelcontextprotocol/ui"
_PAGE = "text/html;profile=mcp-app"


@scenario("AP-01")
async def declares_unknown_extensions(fake: FakeServer) -> None:
    """Declares unknown extensions."""
    fake.healthy.capabilities["extensions"] = {"com.example/unknown": {"level": 9}, "org.example.nested/other": {}}
    await fake.exited_after("server/discover")
    fake.expect_as_usual("AP-01", "when the server declared unknown extensions")


@scenario("AP-02")
async def has_an_app(fake: FakeServer) -> None:
    """Lists a tool with an app."""
    fake.healthy.capabilities["extensions"] = {_UI: {}}
    fake.add_tool("dashboard", text("All is well."), _meta={"ui": {"resourceUri": "ui://fake/dashboard"}})
    await fake.client_exited()
    stray = next((message for message in fake.received_lines if (message.method or "").startswith("ui/")), None)
    declaring = [message for message in fake.requests() if _declared(message) is not None]
    if not declaring and stray is None:
        raise Skip("the client does not declare that it shows apps")
    for message in declaring:
        kinds = members(_declared(message)).get("mimeTypes")
        why = f"the client declares {_UI} without {_PAGE} in its mimeTypes"
        fake.expect("AP-02", isinstance(kinds, list) and _PAGE in kinds, why, about=message)
    fake.forbid("AP-02", stray, "the client sent the server a ui/ message, which belongs between a host and a page")


def _declared(message: ClientMessage) -> Any:
    return members(members(message.meta.get(META_CAPABILITIES)).get("extensions")).get(_UI)
