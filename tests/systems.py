"""Which system runs the tests."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

WINDOWS = sys.platform == "win32"
LINUX = sys.platform == "linux"


def _is_wine() -> bool:
    if sys.platform != "win32":
        return False
    import ctypes  # noqa: PLC0415 - only needed there

    return hasattr(ctypes.WinDLL("ntdll"), "wine_get_version")


WINE = _is_wine()


def on_posix(reason: str) -> pytest.MarkDecorator:
    """Skip a test on Windows, because it is made of things that only POSIX has."""
    return pytest.mark.skipif(WINDOWS, reason=f"POSIX: {reason}")


def not_under_wine(reason: str) -> pytest.MarkDecorator:
    """Skip a test that a real Windows can run, and Wine cannot."""
    return pytest.mark.skipif(WINE, reason=f"Wine: {reason}")


# Modules that are compiled by Rust, or need one that is, and helpers of tests that import them. They need a newer Wine.
COMPILED_BY_RUST = {
    *("cryptography", "fastapi", "granian", "jsonschema_rs", "mcp_types", "pydantic", "watchfiles"),
    *("jwt_issuer", "unit.protocol.official"),
}


class SkippedModule(pytest.Module):
    """A test file that imports something that cannot be installed."""

    reason = ""

    def collect(self):
        pytest.skip(self.reason, allow_module_level=True)


def skipped_module(path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Return a replacement for a test file that cannot be imported under Wine."""
    missing = sorted(_imports_of(path) & COMPILED_BY_RUST) if WINE else []
    if not missing:
        return None
    module = SkippedModule.from_parent(parent, path=path)
    module.reason = f"Wine: the file needs {missing[0]}, which is compiled by Rust and needs a newer Wine"
    return module


def _imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for statement in ast.parse(path.read_bytes()).body:
        if isinstance(statement, ast.Import):
            found.update(name for each in statement.names for name in (each.name, each.name.partition(".")[0]))
        elif isinstance(statement, ast.ImportFrom) and statement.module:
            found.update((statement.module.partition(".")[0], *(f"{statement.module}.{each.name}" for each in statement.names)))
    return found
