"""One rule of the protocol, as the check knows it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, structs

from twopipes._protocol.revisions import ALL, LEGACY, MODERN
from twopipes.errors import LocalProtocolError

__all__ = ["Basis", "Level", "Rule", "Severity", "Side"]

Level = Literal["MUST", "SHOULD", "MAY"]
Basis = Literal["prose", "schema", "json-rpc", "inference"]
Side = Literal["server", "client", "both"]
Severity = Literal["error", "warning", "note"]

_SITE = "https://modelcontextprotocol.io"


class Rule(Struct, frozen=True, kw_only=True):
    """A row of the table.

    Attributes:
        id: As on the page of requirements: ``FR-04``.
        level: The word of the specification; MUST NOT is a MUST, SHOULD NOT a SHOULD.
        basis: Where it stands: in the ``prose``, in the ``schema`` alone, in ``json-rpc``, which every revision makes binding; or
            ``inference``: our reading of a place where the text is silent, so that a breach is never more than a warning.
        side: Who has to keep it.
        title: The rule in our words, as what a good implementation does.
        page: The page of the specification, below the revision: ``basic/transports``; with a slash before it, a page of the site
            that belongs to no revision, as those of extensions are.
        modern_page: The same in the stateless revisions, where it stands elsewhere.
        since: The first revision that has it.
        until: The last one; ``None`` while it is still there.
        except_in: Revisions between the two that do not have it.
        must_since: From which revision on what can be broken of it is a MUST, where it is less before, or where the word at its
            beginning is about what may be done.
        inferred_for: The side for which it is our reading alone: the text binds the other side, and what this one has to do follows
            from that.
        stated_since: From which revision on it stands there; in those before it is our reading. In all, unless given.
        untestable: Why nobody can see from outside whether it is kept; empty for all others.
        untestable_server: The same, for servers alone.
        untestable_client: The same, for clients alone.
        partly: What of it nobody can see from outside, or is not tried, though the rest is judged; empty where all of it is.
        partly_server: The same, for servers alone.
        partly_client: The same, for clients alone.
        lenient: Where the text is silent, contradicts itself or can be read in two ways: what it says, and what is let pass.
        fix: What to change in an implementation that breaks it.
    """

    id: str
    level: Level
    title: str
    side: Side = "both"
    basis: Basis = "prose"
    page: str = "basic"
    modern_page: str = ""
    since: str = ALL[0]
    until: str | None = None
    except_in: tuple[str, ...] = ()
    must_since: str | None = None
    inferred_for: Literal["server", "client"] | None = None
    stated_since: str | None = None
    untestable: str = ""
    untestable_server: str = ""
    untestable_client: str = ""
    partly: str = ""
    partly_server: str = ""
    partly_client: str = ""
    lenient: str = ""
    fix: str = ""

    def __post_init__(self) -> None:
        if not self.revisions:
            raise LocalProtocolError(f"the rule {self.id} applies to no revision: {self.since} to {self.until}")

    @property
    def section(self) -> str:
        """``FR`` of ``FR-04``."""
        return self.id.partition("-")[0]

    @property
    def revisions(self) -> tuple[str, ...]:
        """Those that have the rule, in order."""
        last = self.until or ALL[-1]
        return tuple(each for each in ALL if self.since <= each <= last and each not in self.except_in)

    def applies_in(self, revision: str) -> bool:
        """Tells whether a revision has the rule."""
        return revision in self.revisions

    def binds(self, side: Literal["server", "client"]) -> bool:
        """Tells whether a server, or a client, has to keep it."""
        return self.side in {side, "both"}

    def for_side(self, side: Literal["server", "client"]) -> Rule:
        """The rule as it binds one side."""
        return structs.replace(self, basis="inference") if self.inferred_for == side else self

    def why_untestable(self, side: Literal["server", "client"]) -> str:
        """Why nobody can see whether this side keeps it; empty where one can."""
        return self.untestable or (self.untestable_server if side == "server" else self.untestable_client)

    def why_partly(self, side: Literal["server", "client"]) -> str:
        """What of it is not seen on this side, though it is judged there; empty where all of it is seen."""
        return self.partly or (self.partly_server if side == "server" else self.partly_client)

    def level_in(self, revision: str | None = None) -> Level:
        """How binding it is in a revision; in the newest that has it unless given."""
        if self.must_since is not None and (revision or self.revisions[-1]) >= self.must_since:
            return "MUST"
        return self.level

    @property
    def degree(self) -> str:
        """How binding it is, for people."""
        if self.must_since is None or self.must_since <= self.revisions[0]:
            return self.level_in()
        return f"{self.level}, MUST from {self.must_since} on"

    def severity_in(self, revision: str | None = None) -> Severity:
        """What a breach amounts to. Our own reading of the text accuses nobody of an error."""
        level = self.level_in(revision)
        if level == "MAY":
            return "note"
        return "error" if level == "MUST" and self.basis_in(revision) != "inference" else "warning"

    def basis_in(self, revision: str | None = None) -> Basis:
        """Where it stands, as of a revision; of the newest that has it unless given."""
        is_stated = self.stated_since is None or (revision or self.revisions[-1]) >= self.stated_since
        return self.basis if is_stated else "inference"

    @property
    def link(self) -> str:
        """The page of the newest revision that has the rule."""
        return self.link_in(self.revisions[-1])

    def link_in(self, revision: str) -> str:
        """The page of one revision."""
        page = self.modern_page if self.modern_page and revision in MODERN else self.page
        return _SITE + page if page.startswith("/") else f"{_SITE}/specification/{revision}/{page}"

    @property
    def span(self) -> str:
        """The revisions, for people."""
        mine = self.revisions
        if mine == ALL:
            return "all revisions"
        if mine == LEGACY:
            return "the revisions with a handshake"
        if len(mine) > 1 and mine == ALL[ALL.index(mine[0]) :]:
            return f"{mine[0]} and later"
        return ", ".join(mine)
