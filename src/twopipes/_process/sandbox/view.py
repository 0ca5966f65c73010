"""What a server in a sandbox can see: the paths of its policy, those of the system, and its own program."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from twopipes._process.sandbox.program import files_of_program
from twopipes.settings import Sandbox

# Programs and libraries. They are the same for every user and contain no secrets.
SYSTEM: Final = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/nix/store", "/gnu/store", "/run/current-system"),
    *("/sys/devices/system/cpu", "/sys/devices/system/node"),
)
# The rest of /etc may contain passwords and keys, which root can read.
SYSTEM_FILES: Final = tuple(
    f"/etc/{name}"
    for name in (
        *("alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies", "pki", "ssl/cert.pem", "ssl/certs"),
        *("ssl/openssl.cnf", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld-musl-x86_64.path", "ld-musl-aarch64.path"),
        *("group", "nsswitch.conf", "passwd", "gai.conf", "host.conf", "hosts", "protocols", "resolv.conf", "services"),
        *("locale.alias", "locale.conf", "localtime", "timezone", "fonts", "mime.types", "os-release", "debian_version"),
    )
)
# A host may start a server in one of these, and does not mean to show all of it to the server.
SHARED_FOLDERS: Final = frozenset(
    (
        *("/", "/boot", "/dev", "/etc", "/home", "/media", "/mnt", "/opt", "/proc", "/root", "/run", "/srv", "/sys"),
        *("/tmp", "/var", "/var/tmp"),  # noqa: S108 - not used
    )
)
# Programs whose first argument that is not an option is a program as well.
_INTERPRETER: Final = re.compile(r"(?:python|pypy|node|bun|deno|ruby|perl|php|bash|dash|zsh|sh)[0-9.]*")
# Parts of a path, links included. The kernel follows 40 links.
_MAX_PARTS: Final = 4096
_CODE_OPTIONS: Final = ("-c", "-e", "-m", "-r", "--eval", "--print", "-p")


class ViewProblem(Exception):
    """The server cannot work with its policy. The message says why, and what to change."""


class View(Struct, frozen=True, kw_only=True):
    """Everything that a server can see, as absolute paths. A folder is seen with all that it contains."""

    read: tuple[str, ...]
    write: tuple[str, ...]
    # Symbolic links to the program, with their targets.
    links: Mapping[str, str]
    network: bool
    folder: str
    home: str | None

    def shows(self, path: str) -> bool:
        """Return whether a path can be read."""
        return is_below(os.path.realpath(path), map(os.path.realpath, (*self.read, *self.write)))


def view_of(policy: Sandbox, argv: Sequence[str], environment: Mapping[str, str], folder: str) -> View:
    """Return what a server with this policy can see.

    Raises:
        ViewProblem: A path does not exist, or the program of an interpreter is hidden.
    """
    home = _home(environment)
    read = [_existing("read", each, folder) for each in policy.read]
    write = [_existing("write", each, folder) for each in policy.write]
    if policy.folder and not _is_shared(folder, home):
        read.append(folder)
    writable = {os.path.realpath(each) for each in write}
    read, write = _without_traps(read, writable), _without_traps(write, writable)
    files, links, missing = files_of_program(
        argv[0], environment, folder, home=home, is_controlled=lambda path: is_controlled(path, writable)
    )
    system = [path for path in (*SYSTEM, *SYSTEM_FILES) if os.path.exists(path)]
    view = View(
        read=tuple(dict.fromkeys([*system, *files, *read])),
        write=tuple(dict.fromkeys(write)),
        links=links,
        network=policy.network,
        folder=folder,
        home=home,
    )
    script = _script(argv, folder)
    if script is not None and not view.shows(script):
        raise ViewProblem(f"{script} is hidden from it; add {script}, or its folder, to Sandbox(read=[...])")
    for path in missing:
        if not view.shows(path):
            raise ViewProblem(f"it needs {path}, but only a file that it may change says so; add {path} to Sandbox(read=[...])")
    return view


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Return whether a path is one of these folders, or in one of them. All of them are absolute and normalized."""
    return any(path == each or path.startswith(each.rstrip("/") + "/") for each in folders)


def is_controlled(path: str, writable: Iterable[str]) -> bool:
    """Whether a server that may write to these folders can change a file, or where its path leads."""
    folders = list(writable)
    return any(is_below(os.path.dirname(each), folders) for each in (*_links_on(path), os.path.realpath(path)))


def _links_on(path: str) -> Iterator[str]:
    """Yield the symbolic links that are followed on the way to a path, each where it really is."""
    place, rest = "/", path.split("/")[::-1]
    for _ in range(_MAX_PARTS):
        if not rest:
            return
        part = rest.pop()
        if part == "..":
            place = os.path.dirname(place)
        elif part not in {"", "."}:
            place = os.path.join(place, part)
        if os.path.islink(place):
            yield place
            target = os.readlink(place)
            rest += target.split("/")[::-1]
            place = "/" if target.startswith("/") else os.path.dirname(place)
    raise ViewProblem(f"{path} leads through too many links")


def _without_traps(paths: Sequence[str], writable: set[str]) -> list[str]:
    """Leave out what is visible in a writable folder. A link there must not lead out: the server can make one, and be restarted."""
    found = []
    for path in paths:
        real = os.path.realpath(path)
        if not is_controlled(path, writable):
            found.append(path)
        elif not is_below(os.path.dirname(real), writable):
            raise ViewProblem(f"{path} leads to {real} by a link that it may change; name {real} in the policy")
    return found


def _existing(member: str, given: object, folder: str) -> str:
    path = os.path.normpath(os.path.join(folder, os.path.expanduser(str(given))))
    if not os.path.exists(path):
        raise ViewProblem(f"Sandbox.{member} names {path}, which does not exist; create it, or remove it from the policy")
    return path


def _home(environment: Mapping[str, str]) -> str | None:
    path = os.path.normpath(environment.get("HOME") or os.path.expanduser("~"))
    return path if os.path.isabs(path) and path != "/" else None


def _is_shared(folder: str, home: str | None) -> bool:
    """Whether a folder contains much that has nothing to do with the server."""
    real = os.path.realpath(folder)
    homes = {os.path.realpath(each) for each in (home, os.path.expanduser("~")) if each is not None}
    return real in SHARED_FOLDERS or any(is_below(each, [real]) for each in homes)


def _script(argv: Sequence[str], folder: str) -> str | None:
    """Return the program that an interpreter is to run, if it is a file."""
    if not _INTERPRETER.fullmatch(os.path.basename(argv[0])):
        return None
    for word in argv[1:]:
        if word in _CODE_OPTIONS:
            return None
        path = os.path.normpath(os.path.join(folder, word))
        if not word.startswith("-") and os.path.isfile(path):
            return path
    return None
