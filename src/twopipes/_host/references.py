"""References to secrets in the values of variables and headers: resolved when a server is started, and kept nowhere.

A value is one of

* ``keyring:SERVICE/NAME``: a password in the keyring of the system, with the extra ``keyring``;
* ``file:PATH``: the content of a file, relative to the folder of the configuration;
* ``literal:TEXT``: this text, whatever it looks like;
* any other text, in which ``${NAME}``, ``${env:NAME}``, ``${NAME:-default}``, ``${keyring:SERVICE/NAME}`` and
  ``${file:PATH}`` are replaced.

A ``file://`` URL is text. Messages contain the name of a variable and its reference, and never a value.
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TypeVar

from twopipes.errors import ConfigError

_LITERAL = "literal:"
_KEYRING = "keyring:"
_FILE = "file:"
_INSIDE_TEXT = re.compile(r"\$\{([^{}]*)\}")
_VARIABLE = re.compile(r"(?:env:)?([A-Za-z_]\w*)(?::-(.*))?", re.DOTALL)
# Bytes. A variable cannot be much longer on some systems, and a secret is short; a larger file is probably another one.
_MAX_FILE = 64 * 1024
# Seconds. Long enough to type the password of a locked keyring.
_MAX_WAIT = 60.0

T = TypeVar("T")


def literal(value: str) -> str:
    """Return a value that resolves to this text."""
    return _LITERAL + value if refers(value) or value.startswith(_LITERAL) else value


def refers(value: str) -> bool:
    """Return whether a value has a reference."""
    return _is_whole(value) or (not value.startswith(_LITERAL) and _INSIDE_TEXT.search(value) is not None)


def resolved(values: Mapping[str, str], folder: str | None = None) -> dict[str, str]:
    """Resolve the references in variables or headers now. This may block while the user unlocks a keyring.

    Args:
        values: The values by name.
        folder: The folder that paths are relative to; the current one by default.

    Raises:
        ConfigError: A reference cannot be resolved.
    """
    return {name: _resolved(name, value, folder) for name, value in values.items()}


async def resolve(values: Mapping[str, str], folder: str | None = None) -> dict[str, str]:
    """Do the same without blocking the event loop, for at most a minute."""
    if not any(map(refers, values.values())):
        return resolved(values, folder)
    try:
        async with asyncio.timeout(_MAX_WAIT):
            return await _in_thread(lambda: resolved(values, folder))
    except TimeoutError:
        names = ", ".join(name for name, value in values.items() if refers(value))
        raise ConfigError(f"{names} cannot be resolved within {_MAX_WAIT:g} s; is the keyring locked?") from None


def _is_whole(value: str) -> bool:
    """Return whether the whole value is one reference."""
    return value.startswith(_KEYRING) or (value.startswith(_FILE) and not value.startswith("file://"))


def _resolved(name: str, value: str, folder: str | None) -> str:
    if value.startswith(_LITERAL):
        return value.removeprefix(_LITERAL)
    if _is_whole(value):
        return _looked_up(name, value, folder)
    return _INSIDE_TEXT.sub(lambda found: _inside(name, found[1], folder), value)


def _inside(name: str, reference: str, folder: str | None) -> str:
    """Return what replaces ``${reference}``."""
    if _is_whole(reference):
        return _looked_up(name, reference, folder)
    found = _VARIABLE.fullmatch(reference)
    if found is None:
        raise ConfigError(f"{name} has a reference that is not valid: ${{{reference}}}; write literal: before a text with ${{")
    value = os.environ.get(found[1], found[2])
    if value is None:
        raise ConfigError(f"{name} refers to ${{{found[1]}}}, but the variable {found[1]} is not set")
    return value


def _looked_up(name: str, reference: str, folder: str | None) -> str:
    if reference.startswith(_KEYRING):
        return _from_keyring(name, reference)
    return _from_file(name, reference, folder)


def _from_file(name: str, reference: str, folder: str | None) -> str:
    path = os.path.join(folder or "", os.path.expanduser(reference.removeprefix(_FILE)))
    failed = f"{name} refers to {reference}, but"
    try:
        # A FIFO would block here until it has a writer; what is not a regular file is rejected below.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ConfigError(f"{failed} {path} is not a regular file")
            data = stream.read(_MAX_FILE + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "the path is not valid"
        raise ConfigError(f"{failed} {path} cannot be read: {why}") from None
    if len(data) > _MAX_FILE:
        raise ConfigError(f"{failed} {path} has more than {_MAX_FILE // 1024} KiB, which is too long for a value")
    try:
        text = data.decode()
    except UnicodeDecodeError:  # its text has the content
        raise ConfigError(f"{failed} {path} is not UTF-8 text") from None
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text


def _from_keyring(name: str, reference: str) -> str:
    service, slash, user = reference.removeprefix(_KEYRING).rpartition("/")
    failed = f"{name} refers to {reference}, but"
    if not (service and slash and user):
        raise ConfigError(f"{failed} a reference to the keyring is keyring:SERVICE/NAME")
    try:
        import keyring  # optional: the extra `keyring`
    except ImportError:
        raise ConfigError(f"{failed} the package keyring is missing: pip install 'twopipes[keyring]'") from None
    try:
        value = keyring.get_password(service, user)
    except Exception as error:  # backends raise errors of their own libraries; their texts may be long, but have no password
        raise ConfigError(f"{failed} the keyring cannot be read: {type(error).__name__}: {error}") from None
    if value is None:
        raise ConfigError(f"{failed} the keyring has no such password; store it: keyring set {service} {user}")
    return value


async def _in_thread(function: Callable[[], T]) -> T:
    """Call a function in a thread that does not delay the end of the program if it never returns."""
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()  # so that the thread can always set its result

    def work() -> None:
        try:
            done.set_result(function())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=work, name="twopipes: references", daemon=True).start()
    return await asyncio.wrap_future(done)
