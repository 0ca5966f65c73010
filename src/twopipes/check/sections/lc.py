"""The handshake and the version that it agrees on."""

from __future__ import annotations

from functools import partial

from twopipes.check.rule import Rule

_rule = partial(Rule, page="basic/lifecycle", until="2025-11-25")

RULES = (
    _rule(
        id="LC-01", level="MUST", side="client", title="initialize comes first (behind the probe of a client that knows both eras)"
    ),
    _rule(id="LC-02", level="MUST", side="client", title="initialize says the version, the capabilities, and who the client is"),
    _rule(
        id="LC-03",
        level="MUST",
        side="server",
        title="The result of initialize says the version, the capabilities, and who the server is",
    ),
    _rule(
        id="LC-04", level="MUST", side="client", title="After the result of initialize, the client sends notifications/initialized"
    ),
    _rule(id="LC-05", level="SHOULD", side="client", title="Before the result of initialize, the client asks nothing but ping"),
    _rule(id="LC-06", level="SHOULD", side="server", title="Before notifications/initialized, the server asks nothing but ping"),
    _rule(id="LC-07", level="MUST", side="client", title="The client asks for a version that it supports"),
    _rule(id="LC-08", level="MUST", side="server", title="A version that the server supports is agreed to"),
    _rule(
        id="LC-09",
        level="MUST",
        side="server",
        # The page has an example with an error (CON-08): where that names the versions that are supported, nobody is accused.
        title="A version that the server does not support is answered with one that it does, not with an error",
    ),
    _rule(id="LC-10", level="SHOULD", side="client", title="A client that cannot use the version of the server leaves"),
    # From 2025-06-18 on it is a MUST; we take the milder word for all.
    _rule(id="LC-11", level="SHOULD", title="Nothing is used that the version and the capabilities do not have"),
    _rule(id="LC-12", level="MUST", side="client", title="initialize is never cancelled", page="basic/utilities/cancellation"),
    _rule(id="LC-13", level="SHOULD", title="A handshake that fails is no reason to crash"),
    _rule(
        id="LC-14",
        level="SHOULD",
        basis="inference",
        side="server",
        title="A request before initialize gets an error; it is not carried out, and the server lives on",
    ),
    _rule(
        id="LC-15",
        level="SHOULD",
        basis="inference",
        side="server",
        title="A second initialize is refused, and the session goes on",
    ),
    _rule(
        id="LC-16",
        level="MUST",
        basis="inference",
        side="server",
        title="initialize for a revision that has no handshake is answered with one that has",
    ),
)
