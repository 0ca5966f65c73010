"""The machine and the versions of a run."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from contenders import OURS, PEERS

PYTHON_PACKAGES = {"ours": ("twopipes", "msgspec"), "official-2": ("mcp", "pydantic"), "fastmcp-4": ("fastmcp",)}
NODE_PACKAGES = ("server", "client")
ASK = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"


def describe() -> dict[str, Any]:
    """Return what a reader of the figures must know."""
    return {
        "when": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": {
            "processor": _processor(),
            "cores": len(os.sched_getaffinity(0)),
            "memory": _memory(),
            "kernel": f"{platform.system()} {platform.release()}",
            "load when it began": round(os.getloadavg()[0], 2),
        },
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Return the versions of the interpreters and of every contender that is installed."""
    found = {"python": platform.python_version(), "node": _said(["node", "--version"]).removeprefix("v")}
    for home, packages in PYTHON_PACKAGES.items():
        python = (OURS if home == "ours" else PEERS / home) / "bin" / "python"
        said = _said([str(python), "-c", ASK, *packages]).split()
        found |= dict(zip(packages, said, strict=True)) if len(said) == len(packages) else dict.fromkeys(packages, "not installed")
    for package in NODE_PACKAGES:
        name = f"@modelcontextprotocol/{package}"
        described = PEERS / "npm" / "node_modules" / name / "package.json"
        found[name] = json.loads(described.read_text())["version"] if described.exists() else "not installed"
    return found


def as_text(environment: dict[str, Any]) -> str:
    """Return the same as two lines of text."""
    machine = environment["machine"]
    on = f"{machine['processor']}, {machine['cores']} cores, {machine['memory']}, {machine['kernel']}"
    busy = f"load {machine['load when it began']} when it began"
    installed = ", ".join(f"{name} {version}" for name, version in environment["versions"].items())
    return f"{environment['when']}: {on}; {busy}\n{installed}"


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _memory() -> str:
    return f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB"


def _said(command: Sequence[str]) -> str:
    if shutil.which(command[0]) is None:
        return "not installed"
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip()
