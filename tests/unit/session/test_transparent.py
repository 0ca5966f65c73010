"""Sessions of a gateway: a transparent server session, and raw requests of a client session."""

import json

import msgspec
import pytest
from msgspec import Raw

from sessions import (
    EVERYTHING,
    KEY,
    answer,
    asks,
    code,
    feed,
    initialize,
    modern,
    note,
    opened_client,
    request,
    said,
)
from twopipes._protocol import types
from twopipes._protocol.base import RawResult
from twopipes._protocol.revisions import LATEST_LEGACY, LATEST_MODERN
from twopipes._session.events import CallReceived, NotificationReceived, ProgressReceived, RequestEnded
from twopipes._session.identity import ServerProfile
from twopipes._session.server import ServerSession
from twopipes._session.state_token import StateSealer
from twopipes.errors import LocalProtocolError

ERAS = pytest.mark.parametrize("revision", [LATEST_LEGACY, LATEST_MODERN])


def transparent(revision=LATEST_MODERN, capabilities=EVERYTHING) -> ServerSession:
    profile = ServerProfile(info=types.Implementation("s", "1"), capabilities=types.ServerCapabilities(**capabilities))
    session = ServerSession(profile, sealer=StateSealer(KEY), transparent=True)
    if revision == LATEST_LEGACY:
        feed(session, initialize(), note("notifications/initialized"))
        said(session)
    return session


def ask(revision, request_id, method, **params):
    return modern(request_id, method, **params) if revision == LATEST_MODERN else request(request_id, method, **params)


@ERAS
def test_an_unknown_method_is_a_call_with_its_params_as_received(revision):
    session = transparent(revision)
    call = asks(session, ask(revision, 1, "own/method", a={"b": [1]}))
    assert call.method == "own/method"
    assert json.loads(bytes(call.raw_params))["a"] == {"b": [1]}


@ERAS
def test_params_that_a_type_rejects_are_left_to_the_server_behind(revision):
    session = transparent(revision)
    call = asks(session, ask(revision, 1, "prompts/get", name="p", arguments={"n": 1}))
    assert json.loads(bytes(call.raw_params))["arguments"] == {"n": 1}


@ERAS
def test_a_method_whose_capability_is_missing_is_left_to_the_server_behind(revision):
    session = transparent(revision, capabilities={})
    assert asks(session, ask(revision, 1, "prompts/list")).method == "prompts/list"


def test_a_method_of_another_revision_is_refused():
    session = transparent(LATEST_MODERN)
    assert feed(session, modern(1, "tasks/list")) == []
    (line,) = said(session)
    assert code(line) == -32601


def test_what_the_session_handles_itself_is_checked():
    session = transparent(LATEST_LEGACY)
    assert feed(session, request(1, "resources/subscribe")) == []
    (line,) = said(session)
    assert code(line) == -32602


@ERAS
def test_a_raw_result_is_sent_as_it_is(revision):
    session = transparent(revision)
    call = asks(session, ask(revision, "id", "tools/call", name="x"))
    assert session.respond(call, RawResult(Raw(b'{"n":1.50,"own" : [ ]}')))
    assert session.data_to_send() == b'{"jsonrpc":"2.0","id":"id","result":{"n":1.50,"own" : [ ]}}\n'


def test_a_raw_result_with_newlines_is_sent_as_one_line():
    session = transparent()
    call = asks(session, modern(1, "tools/call", name="x"))
    session.respond(call, RawResult(Raw(b'{\n  "a": 1\n}')))
    assert session.data_to_send() == b'{"jsonrpc":"2.0","id":1,"result":{"a":1}}\n'


@ERAS
def test_an_unknown_notification_is_an_event(revision):
    session = transparent(revision)
    (event,) = feed(session, note("own/news", a=1))
    assert isinstance(event, NotificationReceived)
    assert event.method == "own/news"
    assert msgspec.json.decode(event.raw) == {"a": 1}


def test_a_session_that_is_not_transparent_keeps_nothing_of_a_request():
    session = ServerSession(ServerProfile(info=types.Implementation("s", "1"), capabilities=types.ServerCapabilities(tools={})))
    assert asks(session, modern(1, "tools/call", name="x")).raw_params is None
    assert feed(session, note("own/news", a=1)) == []


def test_a_state_of_another_server_is_left_to_the_handler():
    session = transparent()
    (event,) = feed(session, modern(1, "tools/call", name="x", requestState="theirs", inputResponses={}))
    assert isinstance(event, CallReceived)
    assert event.call.rounds == 0
    assert event.call.params.request_state == "theirs"


def test_a_notification_about_a_call_is_forwarded_while_it_is_open():
    session = transparent()
    call = asks(session, modern(1, "tools/call", name="x"))
    assert session.forward("notifications/progress", {"progressToken": 1, "progress": 2, "own": 3}, call=call)
    assert said(session)[0]["params"] == {"progressToken": 1, "progress": 2, "own": 3}
    session.respond(call, RawResult(Raw(b"{}")))
    said(session)
    assert not session.forward("notifications/progress", {"progressToken": 1, "progress": 3}, call=call)
    assert said(session) == []


def test_a_server_that_logs_without_declaring_it_is_passed_on():
    session = transparent(LATEST_LEGACY, capabilities={})
    assert session.wants_log("error")


# The client


@ERAS
def test_a_raw_request_returns_the_result_as_received(revision):
    client = opened_client(revision)
    asked = client.request("tools/call", {"name": "x", "own": Raw(b"[1.50]")}, now=0.0, raw=True)
    line = client.data_to_send()
    assert b'"own":[1.50]' in line
    (event,) = feed(client, answer(asked.id, content="not a list", own=1))
    assert isinstance(event, RequestEnded)
    assert type(event.result) is Raw
    assert json.loads(bytes(event.result)) == {"content": "not a list", "own": 1}


@ERAS
def test_a_raw_request_has_a_progress_token_only_if_progress_is_wanted(revision):
    client = opened_client(revision)
    client.request("tools/call", {"name": "x"}, now=0.0, raw=True, wants_progress=False)
    asked = client.request("tools/call", {"name": "x"}, now=0.0, raw=True, wants_progress=True)
    without, with_token = said(client)
    assert "progressToken" not in without["params"]["_meta"]
    assert with_token["params"]["_meta"]["progressToken"] == asked.id
    (event,) = feed(client, note("notifications/progress", progressToken=asked.id, progress=1, own=2))
    assert isinstance(event, ProgressReceived)
    assert json.loads(bytes(event.raw))["own"] == 2


def test_the_meta_of_another_client_replaces_our_own():
    client = opened_client(LATEST_MODERN)
    theirs = {
        "io.modelcontextprotocol/protocolVersion": LATEST_MODERN,
        "io.modelcontextprotocol/clientCapabilities": Raw(b'{"a":{}}'),
    }
    client.request(
        "tools/call", {"name": "x", "_meta": {"k": Raw(b"1")}}, now=0.0, raw=True, client_meta=theirs, wants_progress=False
    )
    (line,) = said(client)
    assert line["params"]["_meta"] == {
        "k": 1,
        "io.modelcontextprotocol/protocolVersion": LATEST_MODERN,
        "io.modelcontextprotocol/clientCapabilities": {"a": {}},
    }


def test_a_raw_request_of_another_revision_is_still_refused():
    client = opened_client(LATEST_MODERN)
    with pytest.raises(LocalProtocolError):
        client.request("logging/setLevel", {"level": "info"}, now=0.0, raw=True)
