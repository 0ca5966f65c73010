"""Which requests may be sent a second time after a crash."""

import pytest
from msgspec import Raw

from twopipes._client.caller import is_safe_to_repeat
from twopipes._protocol.methods import PARAMS
from twopipes._protocol.types import CallToolParams, ReadResourceParams, ToolAnnotations
from twopipes.settings import RestartPolicy

READS = {
    "completion/complete",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "server/discover",
    "tools/list",
}
TOOLS = {
    "look": ToolAnnotations(read_only_hint=True),
    "set": ToolAnnotations(idempotent_hint=True, destructive_hint=True),
    "add": ToolAnnotations(read_only_hint=False, idempotent_hint=False),
    "silent": ToolAnnotations(),
    "plain": None,
}
SAFE, ALL, NONE = (RestartPolicy(resend=which) for which in ("safe", "all", "none"))


def safe(method, params=None, policy=SAFE):
    return is_safe_to_repeat(method, params, TOOLS.get, policy)


@pytest.mark.parametrize("method", [*PARAMS, "tasks/get", "com.example/charge"])
def test_what_only_looks_is_repeated_and_nothing_else(method):
    """SD-05."""
    assert safe(method) == (method in READS)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("look", True), ("set", True), ("add", False), ("silent", False), ("plain", False), ("unheard of", False)],
)
def test_a_tool_is_repeated_if_it_changes_nothing_or_may_be_called_twice(name, expected):
    """SD-05, TL-08: a hint that is missing means no."""
    assert safe("tools/call", CallToolParams(name)) is expected
    assert safe("tools/call", {"name": name, "arguments": {}}) is expected
    assert safe("tools/call", {"name": Raw(f'"{name}"'.encode())}) is expected  # the call of another client, passed on


@pytest.mark.parametrize("params", [None, {}, {"name": 5}, {"name": ["look"]}, ReadResourceParams("look")])
def test_a_tool_call_without_a_name_is_not_repeated(params):
    assert safe("tools/call", params) is False


@pytest.mark.parametrize("method", [*PARAMS, "com.example/charge"])
def test_a_user_who_wants_nothing_repeated_gets_that(method):
    assert safe(method, CallToolParams("look"), NONE) is False


@pytest.mark.parametrize("method", ["tools/call", "tools/list", "com.example/charge"])
def test_a_user_who_wants_everything_repeated_gets_that(method):
    assert safe(method, CallToolParams("add"), ALL) is True


@pytest.mark.parametrize("method", ["initialize", "subscriptions/listen", "resources/subscribe", "logging/setLevel"])
def test_what_belongs_to_one_process_is_never_repeated(method):
    """SD-06, SU-16: the fresh process gets its own opening and subscriptions."""
    assert safe(method, None, ALL) is False
