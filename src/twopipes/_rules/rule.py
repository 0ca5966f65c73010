"""One rule of the protocol."""

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
    """A row of the table of rules.

    Attributes:
        id: The id on the page of requirements, such as ``FR-04``; the table sets it.
        must: The rule in our words, if its level is MUST: what a correct implementation does. MUST NOT counts as MUST.
        should: The same for SHOULD and SHOULD NOT.
        may: The same for MAY. A rule has one of these three.
        basis: The source of the rule: the ``prose``, only the ``schema``, or ``json-rpc``, which every revision makes binding; or
            ``inference``, our reading where the text is silent, so a breach is a warning at most.
        side: The side that the rule binds.
        page: The page of the specification, relative to the revision: ``basic/transports``. With a leading slash it is a page
            of the site that does not depend on a revision, such as that of an extension.
        modern_page: The page in modern revisions, if it is another one.
        since: The first revision that has the rule.
        until: The last revision that has it; ``None`` if it still exists.
        except_in: Revisions between the two that do not have it.
        must_since: The first revision in which a breach breaks a MUST, if the level is lower before or the rule is a permission.
        inferred_for: The side for which the rule is our reading: the text binds the other side, and this follows from it.
        stated_since: The first revision that states the rule; before, it is our reading. By default every revision states it.
        untestable: Why a breach is not visible from outside; empty for rules that are judged.
        untestable_server: The same, for servers only.
        untestable_client: The same, for clients only.
        partly: What part of the rule is not visible from outside, or not tried; empty if the whole rule is judged.
        partly_server: The same, for servers only.
        partly_client: The same, for clients only.
        lenient: For places where the text is silent, ambiguous or contradictory: what it says, and what is accepted.
        fix: What to change in an implementation that breaks the rule.
    """

    id: str = ""
    must: str = ""
    should: str = ""
    may: str = ""
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
            raise LocalProtocolError(f"the rule {self.title!r} applies to no revision: {self.since} to {self.until}")
        if [self.must, self.should, self.may].count("") != 2:
            raise LocalProtocolError(f"the rule {self.title!r} must have one of must, should and may")

    @property
    def level(self) -> Level:
        """The keyword of the specification."""
        return "MUST" if self.must else "SHOULD" if self.should else "MAY"

    @property
    def title(self) -> str:
        """What a correct implementation does."""
        return self.must or self.should or self.may

    @property
    def section(self) -> str:
        """``FR`` of ``FR-04``."""
        return self.id.partition("-")[0]

    @property
    def revisions(self) -> tuple[str, ...]:
        """The revisions that have the rule, in order."""
        last = self.until or ALL[-1]
        return tuple(each for each in ALL if self.since <= each <= last and each not in self.except_in)

    def applies_in(self, revision: str) -> bool:
        """Return whether a revision has the rule."""
        return revision in self.revisions

    def binds(self, side: Literal["server", "client"]) -> bool:
        """Return whether the rule binds a server or a client."""
        return self.side in {side, "both"}

    def for_side(self, side: Literal["server", "client"]) -> Rule:
        """Return the rule as it binds one side."""
        return structs.replace(self, basis="inference") if self.inferred_for == side else self

    def why_untestable(self, side: Literal["server", "client"]) -> str:
        """Return why a breach by this side is not visible; empty if it is."""
        return self.untestable or (self.untestable_server if side == "server" else self.untestable_client)

    def why_partly(self, side: Literal["server", "client"]) -> str:
        """Return what part of the rule is not judged for this side; empty if the whole rule is."""
        return self.partly or (self.partly_server if side == "server" else self.partly_client)

    def level_in(self, revision: str | None = None) -> Level:
        """Return the level in a revision; by default in the newest one that has the rule."""
        if self.must_since is not None and (revision or self.revisions[-1]) >= self.must_since:
            return "MUST"
        return self.level

    @property
    def degree(self) -> str:
        """The level as text for people."""
        if self.must_since is None or self.must_since <= self.revisions[0]:
            return self.level_in()
        return f"{self.level}, MUST from {self.must_since} on"

    def severity_in(self, revision: str | None = None) -> Severity:
        """Return the severity of a breach. A breach of our own reading is never an error."""
        level = self.level_in(revision)
        if level == "MAY":
            return "note"
        return "error" if level == "MUST" and self.basis_in(revision) != "inference" else "warning"

    def basis_in(self, revision: str | None = None) -> Basis:
        """Return the source of the rule in a revision; by default in the newest one that has the rule."""
        is_stated = self.stated_since is None or (revision or self.revisions[-1]) >= self.stated_since
        return self.basis if is_stated else "inference"

    @property
    def link(self) -> str:
        """The URL of the page in the newest revision that has the rule."""
        return self.link_in(self.revisions[-1])

    def link_in(self, revision: str) -> str:
        """Return the URL of the page in one revision."""
        page = self.modern_page if self.modern_page and revision in MODERN else self.page
        return _SITE + page if page.startswith("/") else f"{_SITE}/specification/{revision}/{page}"

    @property
    def span(self) -> str:
        """The revisions as text for people."""
        mine = self.revisions
        if mine == ALL:
            return "all revisions"
        if mine == LEGACY:
            return "legacy revisions"
        if len(mine) > 1 and mine == ALL[ALL.index(mine[0]) :]:
            return f"{mine[0]} and later"
        return ", ".join(mine)
