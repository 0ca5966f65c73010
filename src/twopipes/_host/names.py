"""The public names of tools (and prompts) of several servers, and what may be confused with what.

A public name is a prefix, a separator and the tool's own name. The prefix comes from the name that the *user* gave the server. It
never contains the separator and never ends with its character, so the first separator ends the prefix: a server cannot choose names
that collide with those of another one. Only the names of one server can collide with each other. Even so, a name is looked up in a
table and never split.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import islice
from typing import Literal, NamedTuple

from msgspec import Struct

from twopipes._host.look_alikes import joined, letters_of, skeleton
from twopipes.errors import LocalProtocolError

# What the APIs of models accept as the name of a tool: 64 characters of this set.
MAX_NAME = 64
_OTHER = re.compile(r"[^a-zA-Z0-9_-]")
_SEPARATOR = re.compile(r"(_{1,4}|-{1,4})")
# The longest prefix. It leaves at least 28 characters for a tool, with its hash if it must be cut.
_MAX_PREFIX = 32
_HASH = 8  # hexadecimal digits
# Characters of a name in a message.
_MAX_SHOWN = 100
# Problems that one table reports; a server with thousands of similar names is described well enough by the first ones.
_MAX_PROBLEMS = 100


class Named(NamedTuple):
    """What a public name refers to: a server, by the user's name for it, and one of its own names."""

    server: str
    name: str


class NameProblem(Struct, frozen=True):
    """Names that collide, or that a person or a model may confuse.

    Attributes:
        kind: ``collision``: two names would have the same public name, and both got a longer one. ``duplicate``: a server lists
            one name twice, and the first one is used. ``look-alike``: two names differ only in case, in punctuation or in letters
            that look the same. ``impersonation``: a name begins with the prefix of another server.
        server: The server that the problem is attributed to.
        name: Its own name; empty if the problem is the name of the server itself.
        other_server: The other server; the same one if the problem is inside one server.
        other_name: Its own name; empty if it is the server itself.
    """

    kind: Literal["collision", "duplicate", "look-alike", "impersonation"]
    server: str
    name: str
    other_server: str
    other_name: str

    def __str__(self) -> str:
        this, other = _described(self.server, self.name), _described(self.other_server, self.other_name)
        match self.kind:
            case "collision":
                return f"{this} would have the same public name as {other}; the names got a hash to tell them apart"
            case "duplicate":
                return f"{shown(self.server)} lists {shown(self.name)} more than once; the first one is used"
            case "look-alike":
                return f"{this} looks like {other}; check which one is meant before you allow a call"
            case _:
                return f"{this} has a name that begins like those of {other}; check which server is meant before you allow a call"


def prefixed(server: str, name: str, separator: str = "__") -> str:
    """Return the public name of a tool: at most 64 characters of ``A-Z a-z 0-9 _ -``.

    Other characters become ``_``. A name that is too long is cut and gets a hash of the whole name.

    Args:
        server: The name that the user gave the server.
        name: The own name of the tool.
        separator: What comes between them: one to four ``_`` or ``-``.

    Raises:
        LocalProtocolError: The separator is invalid.
    """
    return _joined(prefix_of(server, separator), separator, name)


def prefix_of(server: str, separator: str = "__") -> str:
    """Return the prefix of a server: without the separator, and not ending with its character."""
    check_separator(separator)
    character, other = separator[0], "-" if separator[0] == "_" else "_"
    shortest = character * (len(separator) - 1) or other
    prefix = _OTHER.sub("_", server)
    while separator in prefix:
        prefix = prefix.replace(separator, shortest)
    prefix = prefix.rstrip(character)
    if not any(letter.isalnum() for letter in prefix):
        prefix = _hashed("server", other, server)  # a name in another script
    elif len(prefix) > _MAX_PREFIX:
        prefix = _hashed(prefix[: _MAX_PREFIX - _HASH - 1], other, server)
    return prefix


def check_separator(separator: str) -> None:
    """Raise ``LocalProtocolError`` unless this can separate a prefix from a name."""
    if not _SEPARATOR.fullmatch(separator):
        raise LocalProtocolError(f"the separator must be one to four '_' or one to four '-', got {separator!r}")


class NameTable:
    """Maps public names to servers and their own names.

    A server has names of its own only after :meth:`add_server`. The order in which servers are added is the user's and decides
    which of two servers with the same prefix keeps it.
    """

    def __init__(self, separator: str = "__") -> None:
        check_separator(separator)
        self.separator = separator
        self._prefixes: dict[str, str] = {}  # by server
        self._servers: dict[str, str] = {}  # by prefix
        self._listed: dict[str, list[str]] = {}  # by server: the names as they were given
        self._public: dict[str, dict[str, str]] = {}  # by server: public name to own name
        self._table: dict[str, Named] = {}
        self._problems: dict[str, list[NameProblem]] = {}  # by server: those inside it
        self._skeletons: dict[Named, str] = {}  # of the server and the name
        self._by_skeleton: dict[str, dict[Named, None]] = {}
        self._alike: dict[str, None] = {}  # the skeletons of more than one name
        self._prefixed: dict[str, list[str]] = {}  # by server: the names that contain the separator

    def add_server(self, server: str) -> str:
        """Add a server without names and return its prefix. A prefix that is in use gets a hash."""
        if server in self._prefixes:
            return self._prefixes[server]
        plain = prefix = prefix_of(server, self.separator)
        joint = "-" if self.separator[0] == "_" else "_"
        while prefix in self._servers:
            prefix = _hashed(plain[: _MAX_PREFIX - _HASH - 1], joint, f"{server}\0{prefix}")
        self._prefixes[server] = prefix
        self._servers[prefix] = server
        self._listed[server], self._public[server], self._problems[server], self._prefixed[server] = [], {}, [], []
        return prefix

    def remove_server(self, server: str) -> None:
        """Forget a server and its names."""
        if server in self._prefixes:
            self.replace(server, ())
            del self._servers[self._prefixes.pop(server)]
            for by_server in (self._listed, self._public, self._problems, self._prefixed):
                del by_server[server]

    def replace(self, server: str, names: Iterable[str]) -> None:
        """Replace the names of a server, which is added if it is new."""
        prefix, listed = self.add_server(server), list(names)
        if listed == self._listed[server]:
            return  # most often only a description has changed
        self._listed[server] = listed
        before = self._public[server]
        public_of, self._problems[server] = _public_names(server, prefix, self.separator, listed)
        self._public[server] = {public: name for name, public in public_of.items()}
        self._prefixed[server] = [name for name in public_of if self.separator in name]
        for public, name in before.items():
            del self._table[public]
            if name not in public_of:
                self._forget(Named(server, name))
        letters = letters_of(server)
        for name, public in public_of.items():
            entry = self._table[public] = Named(server, name)
            if entry not in self._skeletons:
                self._remember(entry, joined(letters, letters_of(name)))

    def find(self, public: str) -> Named | None:
        """Return what a public name refers to."""
        return self._table.get(public)

    def server_of(self, public: str) -> str | None:
        """Return the server whose prefix a name has, whether or not the name exists: its names may not be known yet."""
        prefix, found, _ = public.partition(self.separator)
        return self._servers.get(prefix) if found else None

    def names(self, server: str) -> Mapping[str, str]:
        """Return the own names of a server by their public names, in the server's order."""
        return self._public.get(server, {})

    def suggestions(self, public: str, limit: int = 3) -> list[str]:
        """Return public names that are similar to one that does not exist."""
        from difflib import get_close_matches  # only needed for unknown names

        given = public[: 2 * MAX_NAME]
        _, _, rest = given.partition(self.separator)
        own = [each for each, entry in self._table.items() if entry.name in {given, rest}]
        close = get_close_matches(given, list(self._table)[:5_000], n=limit, cutoff=0.6)
        return list(dict.fromkeys([*own, *close]))[:limit]

    def problems(self) -> list[NameProblem]:
        """Return what collides or looks alike: at most 100 problems."""
        found = list(self._server_problems())
        for server in self._prefixes:
            found += self._problems[server]
            found += self._impersonations(server)
        reported = {Named(problem.server, problem.name) for problem in found}
        for key in self._alike:
            if len(found) >= _MAX_PROBLEMS:
                break
            entries = [entry for entry in islice(self._by_skeleton[key], 2 * _MAX_PROBLEMS) if entry not in reported]
            found += self._look_alikes(entries)
        return found[:_MAX_PROBLEMS]

    def _remember(self, entry: Named, key: str) -> None:
        self._skeletons[entry] = key
        entries = self._by_skeleton.setdefault(key, {})
        entries[entry] = None
        if len(entries) > 1:
            self._alike[key] = None

    def _forget(self, entry: Named) -> None:
        key = self._skeletons.pop(entry)
        entries = self._by_skeleton[key]
        del entries[entry]
        if len(entries) < 2:
            self._alike.pop(key, None)
        if not entries:
            del self._by_skeleton[key]

    def _server_problems(self) -> Iterator[NameProblem]:
        """Yield the servers whose names collide or look alike."""
        seen: dict[str, str] = {}
        for server, prefix in self._prefixes.items():
            plain = prefix_of(server, self.separator)
            other = seen.setdefault(skeleton(server) or server, server)
            if prefix != plain:
                yield NameProblem("collision", server, "", self._servers.get(plain, other), "")
            elif other != server:
                yield NameProblem("look-alike", server, "", other, "")

    def _impersonations(self, server: str) -> Iterator[NameProblem]:
        """Yield the names of a server that begin with the prefix of another one."""
        for name in self._prefixed[server]:
            other = self._servers.get(name.partition(self.separator)[0])
            if other is not None and other != server:
                yield NameProblem("impersonation", server, name, other, "")

    def _look_alikes(self, entries: list[Named]) -> Iterator[NameProblem]:
        """Yield the pairs of one skeleton, except equal names of two servers that look alike as a whole."""
        for entry in entries[1:]:
            first = entries[0]
            if entry.server == first.server or skeleton(entry.server) != skeleton(first.server):
                yield NameProblem("look-alike", *entry, *first)


def _public_names(server: str, prefix: str, separator: str, names: Iterable[str]) -> tuple[dict[str, str], list[NameProblem]]:
    """Return the public name of each own name of one server, and what is wrong with them.

    All names that collide get a hash, so that a public name does not depend on the order of the list.
    """
    problems: dict[NameProblem, None] = {}
    owners: dict[str, list[str]] = {}
    seen: set[str] = set()
    for name in names:
        if name in seen:
            problems[NameProblem("duplicate", server, name, server, name)] = None
            continue
        seen.add(name)
        owners.setdefault(_joined(prefix, separator, name), []).append(name)
    taken = {public for public, same in owners.items() if len(same) == 1}
    public_of = {}
    for public, same in owners.items():
        for name in same:
            unique = public if len(same) == 1 else _unique(public, name, taken)
            public_of[name] = unique
            taken.add(unique)
            if name is not same[0]:
                problems[NameProblem("collision", server, name, server, same[0])] = None
    return public_of, list(problems)


def _unique(public: str, name: str, taken: set[str]) -> str:
    """Return a public name with a hash that is not taken yet."""
    unique = _cut(public, name)
    while unique in taken:  # by a name that looks like the hashed one
        unique = _cut(public, f"{name}\0{unique}")
    return unique


def _joined(prefix: str, separator: str, name: str) -> str:
    public = prefix + separator + _OTHER.sub("_", name[:MAX_NAME])
    return public if len(prefix + separator) + len(name) <= MAX_NAME else _cut(public, name)


def _cut(public: str, name: str) -> str:
    """Return a public name that is cut and ends with a hash."""
    return _hashed(public[: MAX_NAME - _HASH - 1], "_", name)


def _hashed(text: str, joint: str, whole: str) -> str:
    digest = sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text}{joint}{digest[:_HASH]}"


def shown(name: str) -> str:
    """Return a name for a message. It may come from a server or a model, so it is quoted and not too long."""
    return repr(name if len(name) <= _MAX_SHOWN else f"{name[:_MAX_SHOWN]}...")


def _described(server: str, name: str) -> str:
    return f"{shown(name)} of {shown(server)}" if name else f"the server {shown(server)}"
