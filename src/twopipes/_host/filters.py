"""Which tools of a server are offered: by their own names, and by what the server claims about them."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from msgspec import Struct

from twopipes._protocol.types import Tool, ToolAnnotations
from twopipes.errors import LocalProtocolError


class ToolFilter(Struct, frozen=True, kw_only=True):
    """Selects tools. A tool must meet every condition.

    Patterns are those of a shell (``*``, ``?``, ``[abc]``), match the tool's own name, without a prefix, and distinguish case.

    The other conditions read the annotations of a tool. These are claims of its server and not proof: a filter keeps tools out of
    the way, and does not protect against a server that lies. A missing claim has the meaning that the protocol gives it: the tool
    changes something, may destroy something, has an effect each time, and reaches the outside world.

    Attributes:
        include: Patterns, one of which must match; empty for all tools.
        exclude: Patterns, none of which may match.
        read_only: Whether the tool must be read-only (``True``) or must not be.
        destructive: Whether it must be destructive or must not be. A read-only tool is never destructive.
        idempotent: Whether it must be idempotent or must not be. A read-only tool always is.
        open_world: Whether it must reach the outside world or must not.
    """

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None

    def __post_init__(self) -> None:
        for name in ("include", "exclude"):
            given = getattr(self, name)
            if isinstance(given, str):
                raise LocalProtocolError(f"ToolFilter.{name} must be a list of patterns; write {name}=[{given!r}]")

    def allows(self, tool: Tool) -> bool:
        """Return whether a tool meets every condition."""
        return self.allows_name(tool.name) and self._allows_claims(tool.hints)

    def allows_name(self, name: str) -> bool:
        """Return whether the own name of a tool meets the conditions for names."""
        if self.include and not any(fnmatchcase(name, pattern) for pattern in self.include):
            return False
        return not any(fnmatchcase(name, pattern) for pattern in self.exclude)

    def _allows_claims(self, claims: ToolAnnotations) -> bool:
        """Compare the conditions with the annotations of a tool."""
        read_only = claims.read_only_hint
        return all(
            wanted is None or wanted == claimed
            for wanted, claimed in (
                (self.read_only, read_only),
                (self.destructive, claims.destructive_hint and not read_only),
                (self.idempotent, claims.idempotent_hint or read_only),
                (self.open_world, claims.open_world_hint),
            )
        )
