"""What every command needs to read its command line. It loads nothing: hosts wait for ``run``, ``tap`` and ``mock``."""

from __future__ import annotations

__all__ = ["UsageError", "split_target"]


class UsageError(Exception):
    """The user can fix this; the message says how in one line."""


def split_target(target: str) -> tuple[str, str]:
    """Split ``FILE:NAME``. The name may be missing, and the drive of a Windows path has a colon of its own."""
    drive = target[:2] if target[1:2] == ":" and target[2:3] in {"\\", "/"} else ""
    where, _, name = target.removeprefix(drive).partition(":")
    return drive + where, name
