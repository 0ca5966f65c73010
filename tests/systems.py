"""Which system runs the tests."""

from __future__ import annotations

import ast
import sys
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import pytest

TABLE = Path(__file__).with_name("not_on_windows.toml")

WINDOWS = sys.platform == "win32"
LINUX = sys.platform == "linux"
# The variable with the folder for the state of programs.
STATE_VARIABLE = "LOCALAPPDATA" if WINDOWS else "XDG_STATE_HOME"


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
    *("jwt_issuer", "unit.protocol.official", "unit.tools.doctor.http_peers"),
}


# Modules that only POSIX has.
OF_POSIX = {"fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"}


class SkippedModule(pytest.Module):
    """A test file that imports something that cannot be installed."""

    reason = ""

    def collect(self):
        pytest.skip(self.reason, allow_module_level=True)


def skipped_module(path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Return a replacement for a test file that cannot be imported on Windows or under Wine."""
    name = path.relative_to(TABLE.parent).as_posix()
    # Not only its tests: the file may not even be importable.
    reason = next((each.reason for each in exclusions() if any(fnmatchcase(name, test) for test in each.tests)), None)
    if reason is None and WINDOWS and (missing := sorted(imports_of(path) & OF_POSIX)):
        reason = f"POSIX: the whole file is about things of POSIX, such as {missing[0]}"
    if reason is None and WINE and (missing := sorted(imports_of(path) & COMPILED_BY_RUST)):
        reason = f"Wine: the file needs {missing[0]}, which is compiled by Rust and needs a newer Wine"
    if reason is None:
        return None
    module = SkippedModule.from_parent(parent, path=path)
    module.reason = reason
    return module


def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for statement in ast.parse(path.read_bytes()).body:
        if isinstance(statement, ast.Import):
            found.update(name for each in statement.names for name in (each.name, each.name.partition(".")[0]))
        elif isinstance(statement, ast.ImportFrom) and statement.module:
            found.update(
                (
                    statement.module,
                    statement.module.partition(".")[0],
                    *(f"{statement.module}.{each.name}" for each in statement.names),
                )
            )
    return found


class Exclusion(NamedTuple):
    """Tests that cannot run on some system, and why."""

    reason: str
    tests: list[str]  # files, or tests; a * means anything, and a test with its parameters is meant exactly


def exclusions() -> list[Exclusion]:
    """Return the rows of not_on_windows.toml that apply to this system."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    systems = {"windows": WINDOWS, "wine": WINE}
    return [
        Exclusion(f"{'POSIX' if system == 'windows' else 'Wine'}: {row['reason']}", row["tests"])
        for system, applies in systems.items()
        if applies
        for row in table[system]
    ]


def mark_excluded(items: list[pytest.Item]) -> None:
    """Skip the tests of the table."""
    for exclusion in exclusions():
        for item in items:
            name = f"{item.path.relative_to(TABLE.parent).as_posix()}::{item.nodeid.partition('::')[2]}"
            if name in exclusion.tests or any(fnmatchcase(name.partition("[")[0], each) for each in exclusion.tests):
                item.add_marker(pytest.mark.skip(reason=exclusion.reason))
