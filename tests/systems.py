"""Which system runs the tests."""

from __future__ import annotations

import sys

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
