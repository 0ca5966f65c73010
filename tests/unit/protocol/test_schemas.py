"""Everything that a dialect writes is valid by the official schema of its revision."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import structs

from twopipes._protocol import revisions
from twopipes._protocol import types as t
from twopipes._protocol.dialect import dialect
from twopipes._protocol.methods import NOTIFICATION_PARAMS, PARAMS, RESULTS
from twopipes.errors import LocalProtocolError
from unit.protocol import official
from unit.protocol.values import all_models, any_of, fulls, models_by_revision

pytestmark = pytest.mark.slow  # hundreds of values against large schemas

SERVER = t.Implementation("server", "1", title="T", icons=[t.Icon("https://a.test/i.png")], website_url="https://a.test")
CLIENT = t.Implementation("client", "1", title="T", description="D")
METHOD_OF = {result: method for method, result in RESULTS.items()} | {t.InputRequiredResult: "tools/call"}
NOTIFIED = set(NOTIFICATION_PARAMS.values()) - {t.EmptyParams}
ASKED_OF_CLIENTS = {t.ElicitParams, t.CreateMessageParams}


def ready(value: Any, revision: str) -> Any:
    """Prepare a value for sending, as the session does."""
    spoken = dialect(revision)
    if isinstance(value, t.Result):
        if isinstance(value, t.SubscriptionsListenResult):
            value = structs.replace(value, meta={revisions.META_SUBSCRIPTION_ID: 7})
        return spoken.finish(METHOD_OF[type(value)], value, server_info=SERVER)
    if isinstance(value, t.Params) and spoken.modern and type(value) not in NOTIFIED | ASKED_OF_CLIENTS:
        capabilities = fulls(t.ClientCapabilities)[0]
        meta = spoken.request_meta(spoken.client_meta(CLIENT, capabilities), progress_token=1, log_level="info")
        value = structs.replace(value, meta=meta)
    return spoken.fit(value)


def is_url_question_without_words(value: Any, revision: str) -> bool:
    """A question that 2025-06-18 does not support."""
    return isinstance(value, t.ElicitParams) and value.mode == "url" and revision == "2025-06-18"


def faults_of(value: Any, revision: str) -> list[str]:
    written = msgspec.json.decode(msgspec.json.encode(value))
    found = official.validator(type(value).__name__, revision).iter_errors(written)
    return [
        f"{error.message[:300]} at {error.json_path}: {[inner.message[:200] for inner in error.context or []]}" for error in found
    ]


@pytest.mark.parametrize(("kind", "revision"), models_by_revision())
def test_a_value_with_every_member_fits_the_schema(kind, revision):
    """MT-07, CP-03, CT-01, CT-02, CT-04, CT-06, TL-01, TL-11, TL-21, EL-01 to EL-04, EL-10, SA-03, VN-06, VN-08, CH-01, CH-02."""
    for value in fulls(kind):
        if is_url_question_without_words(value, revision):
            with pytest.raises(LocalProtocolError):
                ready(value, revision)
        else:
            assert faults_of(ready(value, revision), revision) == []


@pytest.mark.parametrize("revision", revisions.ALL)
@given(st.data())
def test_any_value_fits_the_schema(revision, data):
    """The same for random values."""
    there = [kind for kind in all_models() if revisions.TYPES.get(kind.__name__, revisions.ALWAYS).has(revision)]
    value = data.draw(any_of(data.draw(st.sampled_from(there))))
    assume(not is_url_question_without_words(value, revision))
    assert faults_of(ready(value, revision), revision) == []


@pytest.mark.parametrize("revision", revisions.ALL)
@given(st.data())
def test_adapting_twice_changes_nothing(revision, data):
    there = [kind for kind in all_models() if revisions.TYPES.get(kind.__name__, revisions.ALWAYS).has(revision)]
    value = data.draw(any_of(data.draw(st.sampled_from(there))))
    assume(not is_url_question_without_words(value, revision))
    once = dialect(revision).fit(value)
    assert dialect(revision).fit(once) is once


def test_the_validator_refuses_members_of_later_revisions():
    """A check of the validator: values that are not adapted are rejected."""
    assert faults_of(fulls(t.Tool)[0], "2024-11-05")
    assert faults_of(t.CallToolResult([t.AudioContent("AA==", "a/b")]), "2024-11-05")
    assert faults_of(t.ElicitParams("m", "url", url="a:b", elicitation_id="e"), "2026-07-28")


MESSAGES = [kind for kind in all_models() if issubclass(kind, t.Params | t.Result)]
THEIR_NAMES = {
    **{name: f"{request}" for name, request in {**official.REQUEST_OF, **official.NOTIFICATION_OF}.items()},
    "ElicitParams": "ElicitRequest",
}
METHODS = {kind.__name__: method for method, kind in {**PARAMS, **NOTIFICATION_PARAMS}.items()}


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_the_official_python_types_accept_our_messages(kind, revision):
    """A second opinion from the models of another implementation, message by message."""
    pytest.importorskip("mcp_types", reason="the package mcp-types is not installed")
    if not revisions.TYPES.get(kind.__name__, revisions.ALWAYS).has(revision):
        with pytest.raises(LocalProtocolError):
            dialect(revision).fit(fulls(kind)[0])
        return
    models = import_module(f"mcp_types._v{revision.replace('-', '_')}")
    empty = "DiscoverRequest" if revisions.is_modern(revision) else "PingRequest"
    name = empty if kind is t.EmptyParams else THEIR_NAMES.get(kind.__name__, kind.__name__)
    for value in fulls(kind):
        message: Any = ready(value, revision)
        if issubclass(kind, t.Params):
            method = METHODS[kind.__name__]
            method = {"DiscoverRequest": "server/discover", "PingRequest": "ping"}.get(name, method)
            method = "tools/list" if kind is t.ListParams else method
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": message}
        assert getattr(models, name).model_validate_json(msgspec.json.encode(message)) is not None
