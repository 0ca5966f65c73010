"""The tables of the opening; the tests of the sessions use every row of them."""

import itertools

import pytest

from twopipes._protocol.revisions import ALL, LEGACY, MODERN
from twopipes._session.eras import (
    CLIENT_MOVES,
    SERVER_MOVES,
    ClientPhase,
    Kind,
    Move,
    Phase,
    Reply,
    eras_of,
    kind_of,
    versions_offered,
)

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


def test_every_situation_of_a_server_has_a_row_and_no_other_does():
    reachable = {
        (eras, phase, kind)
        for eras, phase, kind in itertools.product(("both", "legacy", "modern"), Phase, Kind)
        if eras != "modern" or phase is Phase.FRESH  # without the legacy era there is no handshake
    }
    assert set(SERVER_MOVES) == reachable
    assert set(SERVER_MOVES.values()) == set(Move)


def test_every_reply_to_an_opening_request_has_a_row_and_no_other_does():
    probing = set(Reply) - {Reply.INITIALIZED, Reply.STRANGE_VERSION}
    shaking_hands = {Reply.INITIALIZED, Reply.STRANGE_VERSION, Reply.REFUSED, Reply.UNUSABLE, Reply.SILENCE, Reply.GONE}
    shaking_hands |= {Reply.OTHER_VERSION}
    asking = (ClientPhase.PROBING, ClientPhase.RETRYING, ClientPhase.RECONSIDERING)
    rows = {(phase, reply) for phase in asking for reply in probing}
    rows |= {(ClientPhase.INITIALIZING, reply) for reply in shaking_hands}
    assert set(CLIENT_MOVES) == rows


def test_a_modern_server_is_never_left_for_the_handshake_once_it_is_proved():
    """DE-03. Only its own list of nothing but legacy dates permits it (DE-15)."""
    back = {
        reply for (phase, reply), to in CLIENT_MOVES.items() if phase is ClientPhase.RETRYING and to is ClientPhase.INITIALIZING
    }
    assert back == {Reply.LEGACY_VERSIONS}


def test_no_row_leads_back():
    """VN-05: no loops."""
    order = [ClientPhase.PROBING, ClientPhase.RETRYING, ClientPhase.INITIALIZING, ClientPhase.RECONSIDERING]
    ends = {ClientPhase.MODERN, ClientPhase.LEGACY, ClientPhase.FAILED, ClientPhase.RESPAWN}
    for (phase, _), to in CLIENT_MOVES.items():
        assert to in ends or order.index(to) > order.index(phase)


@pytest.mark.parametrize(
    ("revisions", "eras"), [(ALL, "both"), (LEGACY, "legacy"), (MODERN, "modern"), ((LEGACY[0], MODERN[0]), "both")]
)
def test_revisions_belong_to_eras(revisions, eras):
    assert eras_of(revisions) == eras


@pytest.mark.parametrize(
    ("method", "meta", "kind"),
    [
        ("tools/list", {VERSION: "2026-07-28", CAPABILITIES: {}}, Kind.MODERN),
        ("tools/list", {VERSION: 5}, Kind.MODERN),
        ("tools/list", {CAPABILITIES: None}, Kind.MODERN),
        ("initialize", {VERSION: "2026-07-28"}, Kind.MODERN),
        ("ping", {VERSION: "2026-07-28"}, Kind.MODERN),
        ("initialize", {"progressToken": 1}, Kind.INITIALIZE),
        ("initialize", None, Kind.INITIALIZE),
        ("ping", None, Kind.PING),
        ("ping", {}, Kind.PING),
        ("tools/list", {"io.modelcontextprotocol/clientInfo": {}}, Kind.PLAIN),
        ("server/discover", None, Kind.PLAIN),
    ],
)
def test_the_era_of_a_request_shows_in_its_meta_first(method, meta, kind):
    """DE-12, VN-02, VN-12."""
    assert kind_of(method, meta) is kind


@pytest.mark.parametrize(
    ("offered", "reply", "version"),
    [
        (["2026-07-28"], Reply.OTHER_VERSION, "2026-07-28"),
        (["2025-11-25", "2026-07-28", "2099-01-01"], Reply.OTHER_VERSION, "2026-07-28"),
        (["2025-11-25"], Reply.LEGACY_VERSIONS, None),
        (["2099-01-01"], Reply.NO_COMMON_VERSION, None),
        ([], Reply.NO_COMMON_VERSION, None),
    ],
)
def test_legacy_dates_in_a_list_only_permit_the_handshake(offered, reply, version):
    """DE-15, CON-06."""
    assert versions_offered(offered, spoken=ALL) == (reply, version)


def test_a_date_that_this_side_does_not_speak_is_not_chosen():
    assert versions_offered(ALL, spoken=LEGACY) == (Reply.LEGACY_VERSIONS, None)
    assert versions_offered(LEGACY, spoken=MODERN) == (Reply.NO_COMMON_VERSION, None)
