"""The opening of a client: every row of its table, with a real session."""

import msgspec
import pytest

from sessions import CAPABILITIES, EVERYTHING, VERSION, answer, client_session, error, feed, note, request, said
from twopipes._protocol import types
from twopipes._protocol.revisions import ALL, LATEST_LEGACY, LATEST_MODERN, LEGACY, MODERN
from twopipes._session.eras import CLIENT_MOVES, ClientPhase, Reply
from twopipes._session.events import ClientOpened, OpeningEnded, PeerClosed, RequestIgnored
from twopipes.errors import LocalProtocolError, OpeningFailed
from twopipes.settings import Timeouts


def discovered(request_id, versions=(LATEST_MODERN,), **more):
    return answer(request_id, supportedVersions=list(versions), capabilities=EVERYTHING, **more)


def initialized(request_id, version=LATEST_LEGACY, **more):
    return answer(request_id, protocolVersion=version, capabilities={}, serverInfo={"name": "s", "version": "1"}, **more)


def unsupported(request_id, versions):
    return error(request_id, -32022, data={"supported": list(versions), "requested": "x"})


def replies(reply, session, last):
    """Feed a reply to the request with the id ``last``."""
    match reply:
        case Reply.DISCOVERED:
            return feed(session, discovered(last))
        case Reply.OTHER_VERSION:
            return feed(session, unsupported(last, ALL))
        case Reply.LEGACY_VERSIONS:
            return feed(session, unsupported(last, LEGACY))
        case Reply.NO_COMMON_VERSION:
            return feed(session, unsupported(last, ["2099-01-01"]))
        case Reply.INITIALIZED:
            return feed(session, initialized(last))
        case Reply.STRANGE_VERSION:
            return feed(session, initialized(last, "1999-01-01"))
        case Reply.NEEDS_CAPABILITY:
            return feed(session, error(last, -32021, data={"requiredCapabilities": {"roots": {}}}))
        case Reply.REFUSED:
            return feed(session, error(last, -32601))
        case Reply.UNUSABLE:
            return feed(session, answer(last))
        case Reply.SILENCE:
            return session.tick(now=1000.0)
        case Reply.GONE:
            return session.receive_eof(now=0.0)


def reach(phase, **options):
    """Return a client in a phase of its opening, and the id of its open request."""
    session = client_session(**options)
    session.open(now=0.0)
    (line,) = said(session)
    if phase in {ClientPhase.INITIALIZING, ClientPhase.RECONSIDERING}:
        feed(session, error(line["id"], -32601))
        (line,) = said(session)
    if phase is ClientPhase.RECONSIDERING:
        feed(session, unsupported(line["id"], MODERN))
        (line,) = said(session)
    if phase is ClientPhase.RETRYING:
        feed(session, unsupported(line["id"], ALL))
        (line,) = said(session)
    assert session.phase is phase
    return session, line["id"]


@pytest.mark.parametrize(("row", "to"), CLIENT_MOVES.items(), ids=str)
def test_the_client_goes_where_the_table_says(row, to):
    """DE-02, DE-03, DE-04, DE-06, DE-15, VN-05, LC-10, LC-13."""
    phase, reply = row
    session, last = reach(phase)
    events = replies(reply, session, last)
    lines = said(session)
    assert session.phase is to
    if to is ClientPhase.MODERN:
        assert [type(event) for event in events] == [ClientOpened]
        assert lines == []
    elif to is ClientPhase.LEGACY:
        assert [type(event) for event in events] == [ClientOpened]
        assert lines == [note("notifications/initialized")]
    elif to is ClientPhase.INITIALIZING:
        assert events == []
        assert [line["method"] for line in lines] == ["initialize"]
    elif to in {ClientPhase.RETRYING, ClientPhase.RECONSIDERING}:
        assert events == []
        assert [line["method"] for line in lines] == ["server/discover"]
        assert lines[0]["id"] != last
    else:
        (ended, *left) = events
        assert isinstance(ended.error, OpeningFailed)
        assert ended.respawn is (to is ClientPhase.RESPAWN)
        assert left == ([PeerClosed()] if reply is Reply.GONE else [])
        assert lines == []
        with pytest.raises(LocalProtocolError):
            session.request("tools/list", now=0.0)


def test_a_modern_server_that_starts_slowly_is_found_out_by_its_refusal():
    """DE-07, DE-09: the probe timed out, so the server was taken for a legacy one."""
    session = client_session(timeouts=Timeouts(probe=5.0, connect=30.0))
    session.open(now=0.0)
    (probe,) = said(session)
    session.tick(now=5.0)
    (handshake,) = said(session)
    assert handshake["method"] == "initialize"
    assert feed(session, discovered(probe["id"]), unsupported(handshake["id"], MODERN)) == []
    (again,) = said(session)
    assert again["method"] == "server/discover"
    assert session.tick(now=20.0) == []  # the limit of a handshake applies
    (opened,) = feed(session, discovered(again["id"]))
    assert opened.era == "modern"


def test_the_probe_is_a_complete_modern_request():
    """DE-01, VN-01, VN-03."""
    session = client_session(capabilities={"roots": {}})
    session.open(now=0.0)
    (line,) = said(session)
    assert line["method"] == "server/discover"
    assert line["params"]["_meta"] == {
        VERSION: LATEST_MODERN,
        CAPABILITIES: {"roots": {}},
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
    }


@pytest.mark.parametrize("options", [{"skip_probe": True}, {"revisions": LEGACY}])
def test_where_there_is_nothing_to_find_out_the_handshake_comes_first(options):
    """LC-01, LC-02, LC-07, DE-06, DE-07."""
    session = client_session(capabilities={"roots": {"listChanged": True}}, **options)
    session.open(now=0.0)
    (line,) = said(session)
    assert line["method"] == "initialize"
    assert line["params"] == {
        "protocolVersion": LATEST_LEGACY,
        "capabilities": {"roots": {"listChanged": True}},
        "clientInfo": {"name": "c", "version": "1"},
    }


@pytest.mark.parametrize("revision", LEGACY)
def test_any_legacy_version_that_is_spoken_will_do(revision):
    """LC-04, LC-08."""
    session, last = reach(ClientPhase.INITIALIZING)
    (event,) = feed(session, initialized(last, revision, instructions="Be kind."))
    info = types.Implementation("s", "1")
    assert event == ClientOpened("legacy", revision, types.ServerCapabilities(), info, "Be kind.", event.raw)
    assert msgspec.json.decode(event.raw)["protocolVersion"] == revision
    assert session.dialect.revision == revision
    assert session.session_dialect is session.dialect


def test_a_modern_opening_reports_everything():
    """DE-02."""
    session, last = reach(ClientPhase.PROBING)
    meta = {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "2"}}
    (event,) = feed(session, discovered(last, ALL, instructions="Be kind.", _meta=meta))
    assert event == ClientOpened(
        "modern", LATEST_MODERN, types.ServerCapabilities(**EVERYTHING), types.Implementation("s", "2"), "Be kind.", event.raw
    )
    assert msgspec.json.decode(event.raw)["supportedVersions"] == list(ALL)
    assert session.server_capabilities.allows("tools", "listChanged")
    assert session.session_dialect is None


@pytest.mark.parametrize("info", [None, 5, {"name": 5}])
def test_server_info_is_optional(info):
    """VN-08."""
    session, last = reach(ClientPhase.PROBING)
    (event,) = feed(session, discovered(last, _meta={"io.modelcontextprotocol/serverInfo": info}))
    assert event.server_info is None


@pytest.mark.parametrize("code", [-32601, -32602, -32600, -32603, -32000, -32001, -32002, -32021, -32022, 0, 1])
def test_the_fallback_is_not_tied_to_a_code(code):
    """DE-04, DE-05: -32021 and -32022 without their data prove nothing either (CON-17)."""
    session, last = reach(ClientPhase.PROBING)
    assert feed(session, error(last, code)) == []
    assert said(session)[0]["method"] == "initialize"


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"supportedVersions": 5, "capabilities": {}},
        {"supportedVersions": [LATEST_MODERN], "capabilities": {}, "resultType": "weird"},
        {"protocolVersion": LATEST_LEGACY},
    ],
)
def test_an_invalid_result_means_legacy(result):
    """DE-04, VN-11."""
    session, last = reach(ClientPhase.PROBING)
    feed(session, answer(last, **result))
    assert said(session)[0]["method"] == "initialize"


def test_a_response_that_is_not_a_message_means_legacy():
    """DE-04."""
    session, last = reach(ClientPhase.PROBING)
    session.receive(b'{"jsonrpc":"2.0","id":%d,"result":null}\n' % last, now=0.0)
    assert said(session)[0]["method"] == "initialize"


@pytest.mark.parametrize("versions", [LEGACY, ["2025-11-25", "2099-01-01"]])
def test_a_discovery_of_legacy_dates_alone_permits_the_handshake(versions):
    """DE-15."""
    session, last = reach(ClientPhase.PROBING)
    feed(session, discovered(last, versions))
    assert said(session)[0]["method"] == "initialize"


def test_a_discovery_without_a_date_we_speak_is_the_end():
    session, last = reach(ClientPhase.PROBING)
    (event,) = feed(session, discovered(last, ["2099-01-01"]))
    assert event.error.offered == ("2099-01-01",)
    assert "2099-01-01" in str(event.error)
    assert not event.respawn


def test_a_late_answer_to_the_probe_is_dropped():
    """DE-17."""
    session, probe = reach(ClientPhase.PROBING)
    assert session.next_deadline() == 5.0
    session.tick(now=5.0)
    (line,) = said(session)
    assert line["id"] != probe
    assert feed(session, discovered(probe), now=6.0) == []
    assert session.phase is ClientPhase.INITIALIZING
    feed(session, initialized(line["id"]), now=7.0)
    assert feed(session, discovered(probe), error(probe, -32601), now=8.0) == []
    assert session.phase is ClientPhase.LEGACY
    assert session.request("tools/list", now=9.0).id not in {probe, line["id"]}


def test_neither_the_probe_nor_the_handshake_is_ever_cancelled():
    """LC-12, TO-02."""
    session, _ = reach(ClientPhase.PROBING)
    session.tick(now=5.0)
    assert [line["method"] for line in said(session)] == ["initialize"]
    (event,) = session.tick(now=35.0)
    assert isinstance(event, OpeningEnded)
    assert said(session) == []
    assert "initialize within 30 s" in str(event.error)


def test_limits_of_the_opening_can_be_set():
    patient = client_session(timeouts=Timeouts(probe=None, connect=None))
    patient.open(now=0.0)
    assert patient.next_deadline() is None
    only_modern = client_session(revisions=MODERN, timeouts=Timeouts(probe=1.0, connect=9.0))
    only_modern.open(now=0.0)
    assert only_modern.next_deadline() == 9.0


@pytest.mark.parametrize("reply", [Reply.REFUSED, Reply.UNUSABLE, Reply.SILENCE, Reply.GONE, Reply.LEGACY_VERSIONS])
def test_a_client_of_the_modern_era_alone_does_not_fall_back(reply):
    """DE-08, DE-15."""
    session, last = reach(ClientPhase.PROBING, revisions=MODERN)
    ended, *_ = replies(reply, session, last)
    assert session.phase is ClientPhase.FAILED
    assert not ended.respawn
    assert said(session) == []
    assert reply is Reply.LEGACY_VERSIONS or LATEST_MODERN in str(ended.error)


def test_a_client_of_the_modern_era_alone_opens():
    session, last = reach(ClientPhase.PROBING, revisions=MODERN)
    (event,) = feed(session, discovered(last, ALL))
    assert event.era == "modern"


@pytest.mark.parametrize("version", ["1999-01-01", LATEST_MODERN, "2025-03-26"])
def test_a_version_that_is_not_spoken_here_ends_the_handshake(version):
    """LC-10."""
    session, last = reach(ClientPhase.INITIALIZING, revisions=("2025-11-25", "2026-07-28"))
    (event,) = feed(session, initialized(last, version))
    assert event.error.offered == (version,)
    assert said(session) == []


def test_a_refused_handshake_says_why():
    """LC-13, CON-08, DE-09."""
    session, last = reach(ClientPhase.RECONSIDERING)
    (event,) = feed(session, unsupported(last, MODERN))
    assert session.phase is ClientPhase.FAILED
    assert "no" in event.error.why


def test_a_connection_is_opened_once():
    session = client_session()
    with pytest.raises(LocalProtocolError, match="nothing sent yet"):
        session.request("tools/list", now=0.0)
    session.open(now=0.0)
    with pytest.raises(LocalProtocolError, match="opened only once"):
        session.open(now=0.0)
    with pytest.raises(LocalProtocolError, match="not open"):
        session.notify("notifications/roots/list_changed")


def test_only_ping_is_answered_while_the_handshake_is_under_way():
    """PI-02, FR-10."""
    probing, _ = reach(ClientPhase.PROBING)
    assert feed(probing, request("p", "ping")) == [RequestIgnored("ping", "p")]
    assert said(probing) == []
    shaking, _ = reach(ClientPhase.INITIALIZING)
    assert feed(shaking, request("p", "ping")) == []
    assert said(shaking) == [answer("p")]


def test_a_server_that_exits_before_the_opening_is_reported():
    session = client_session()
    assert session.receive_eof(now=0.0) == [PeerClosed()]
    with pytest.raises(OpeningFailed, match="exited before"):
        session.open(now=0.0)
    assert said(session) == []
    assert session.next_deadline() is None


def test_a_client_that_speaks_no_handshake_cannot_skip_the_probe():
    with pytest.raises(LocalProtocolError, match="handshake"):
        client_session(revisions=MODERN, skip_probe=True)


def test_a_connection_that_failed_stays_failed():
    session, last = reach(ClientPhase.INITIALIZING)
    feed(session, error(last, -1))
    assert feed(session, initialized(last), request("p", "ping")) == [RequestIgnored("ping", "p")]
    assert session.receive_eof(now=0.0) == [PeerClosed()]
