"""Apps and extensions, from the side of a server."""

from __future__ import annotations

from typing import Any

from twopipes._protocol.revisions import META_CAPABILITIES
from twopipes._tools.check.fake_server import ClientMessage, FakeServer, scenario
from twopipes._tools.check.healthy_responses import text
from twopipes._tools.check.verdict import Skip

_UI = "io.modelcontextprotocol/ui"
_PAGE = "text/html;profile=mcp-app"


@scenario("AP-01")
async def declares_unknown_extensions(fake: FakeServer) -> None:
    """The server declares unknown extensions."""
    fake.healthy.capabilities["extensions"] = {"com.example/never-heard-of": {"level": 9}, "org.example.nested/other": {}}
    await fake.wait_for("server/discover")
    await fake.client_exited()
    fake.expect(
        "AP-01",
        not fake.what_differs,
        f"when a server declared unknown extensions, {fake.what_differs}",
        fix="Look for the extensions that you know, and pass over the others.",
    )


@scenario("AP-02")
async def has_an_app(fake: FakeServer) -> None:
    """One tool has a page; what does a client declare that can show it?"""
    fake.healthy.capabilities["extensions"] = {_UI: {}}
    fake.add_tool("dashboard", text("All is well."), _meta={"ui": {"resourceUri": "ui://fake/dashboard"}})
    await fake.client_exited()
    stray = next((message for message in fake.received_lines if (message.method or "").startswith("ui/")), None)
    declaring = [message for message in fake.requests() if _declared(message) is not None]
    if not declaring and stray is None:
        raise Skip("the client does not declare that it shows apps")
    for message in declaring:
        declared = _declared(message)
        kinds = declared.get("mimeTypes") if isinstance(declared, dict) else None
        fake.expect(
            "AP-02",
            isinstance(kinds, list) and _PAGE in kinds,
            f"the client declares {_UI} without {_PAGE} among its mimeTypes",
            fix=f'Declare "{_UI}": {{"mimeTypes": ["{_PAGE}"]}}.',
            about=message,
        )
    fake.expect(
        "AP-02",
        stray is None,
        "a message between a host and a page was sent to the server",
        fix="Keep ui/ messages between the host and the page.",
        about=stray,
    )


def _declared(message: ClientMessage) -> Any:
    client_capabilities = message.meta.get(META_CAPABILITIES)
    extensions = client_capabilities.get("extensions") if isinstance(client_capabilities, dict) else None
    return extensions.get(_UI) if isinstance(extensions, dict) else None
