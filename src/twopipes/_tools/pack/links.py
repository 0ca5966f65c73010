"""Links that add a server to an editor with one click."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

_CURSOR_BUTTON = "https://cursor.com/deeplink/mcp-install-dark.svg"
_VSCODE_BUTTON = "https://img.shields.io/badge/VS_Code-Install-0098FF"


def entry_of(command: Sequence[str], env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the entry of a server in a configuration file, without its name."""
    return {"command": command[0], "args": list(command[1:]), **({"env": dict(env)} if env else {})}


def cursor_link(name: str, entry: Mapping[str, Any]) -> str:
    """Return the link for Cursor. It is an https address because README pages of GitHub show no others."""
    config = base64.b64encode(_compact(entry).encode()).decode()
    return "https://cursor.com/en/install-mcp?" + urlencode({"name": name, "config": config}, quote_via=quote)


def vscode_link(name: str, entry: Mapping[str, Any]) -> str:
    """Return the link for VS Code."""
    config = _compact({"type": "stdio", **entry})
    return "https://vscode.dev/redirect/mcp/install?" + urlencode({"name": name, "config": config}, quote_via=quote, safe="")


def markdown(name: str, entry: Mapping[str, Any]) -> str:
    """Return both links as buttons for a README."""
    return (
        f"[![Add to Cursor]({_CURSOR_BUTTON})]({cursor_link(name, entry)})\n"
        f"[![Install in VS Code]({_VSCODE_BUTTON})]({vscode_link(name, entry)})"
    )


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
