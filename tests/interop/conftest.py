"""Report in the header of a test run which peers are installed."""

import json
import sys

from interop.harness import INSTALLED

PACKAGES = {
    "official-2": ("mcp",),
    "official-1": ("mcp",),
    "fastmcp-4": ("fastmcp",),
    "published": ("mcp-server-git", "mcp-server-time"),
    "model-apis": ("anthropic", "openai"),
    "linters": ("skillsaw", "zizmor"),
}
MODULES = ("client", "server", "server-everything", "server-filesystem")


def versions_of(peer, packages):
    for package in packages:
        for found in (INSTALLED / peer).glob(f"lib/python*/site-packages/{package.replace('-', '_')}-*.dist-info"):
            yield f"{package} {found.name.removesuffix('.dist-info').rpartition('-')[2]}"


def pytest_report_header():
    lines = []
    for peer in (*PACKAGES, "npm"):
        if not (INSTALLED / peer / "installed").exists():
            lines.append(f"peer {peer}: not installed")
        elif peer == "npm":
            scope = INSTALLED / "npm" / "node_modules" / "@modelcontextprotocol"
            found = [json.loads((scope / module / "package.json").read_text()) for module in MODULES]
            lines.append(f"peer npm: {', '.join(each['name'] + ' ' + each['version'] for each in found)}")
        else:
            lines.append(f"peer {peer}: {', '.join(versions_of(peer, PACKAGES[peer]))}, under Python {sys.version.split()[0]}")
    return lines
