"""The requests of relays and commands, and what two hosts must have in common to share a server."""

import json

import pytest
from msgspec.structs import replace

from twopipes._gateway.daemon.requests import (
    LogsRequest,
    SandboxOptions,
    ServeRequest,
    ShareOptions,
    StatusRequest,
    decode_request,
    sharing_key,
)

REQUEST = ServeRequest(argv=["x", "a b"], cwd="/", environment={"A": "1"}, options=ShareOptions(), pid=1, host=2)


def test_a_request_is_decoded():
    line = b'{"request":"serve","argv":["x","a b"],"cwd":"/","environment":{"A":"1"},"options":{},"pid":1,"host":2}'
    assert decode_request(line) == REQUEST
    assert decode_request(b'{"request":"status"}') == StatusRequest()
    assert decode_request(b'{"request":"logs","server":"x"}') == LogsRequest(server="x")


def test_a_value_that_is_not_utf8_survives():
    line = json.dumps({"request": "logs", "server": "\udcff"}).encode()
    assert decode_request(line) == LogsRequest(server="\udcff")
    assert len(sharing_key(replace(REQUEST, environment={"A": "\udcff"}))) == 64


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"", "invalid request"),
        (b"GET / HTTP/1.1", "invalid request"),
        (b"[]", "invalid request"),
        (b'{"request":"dance"}', "dance"),
        (b'{"request":"serve","argv":[],"cwd":"/","environment":{},"options":{},"pid":1,"host":2}', "length"),
        (b'{"request":"serve","argv":["x"],"cwd":"/","environment":{},"options":{"new":1},"pid":1,"host":2}', "new"),
        (b"[" * 100_000, "invalid request"),
    ],
)
def test_an_invalid_request_is_refused_with_the_reason(line, why):
    with pytest.raises(ValueError, match=why):
        decode_request(line)


@pytest.mark.parametrize(
    "other",
    [
        replace(REQUEST, argv=["x", "a", "b"]),
        replace(REQUEST, cwd="/tmp"),
        replace(REQUEST, environment={"A": "2"}),
        replace(REQUEST, environment={"A": "1", "TOKEN": "t"}),
        replace(REQUEST, options=ShareOptions(share_all=True)),
        replace(REQUEST, options=ShareOptions(sandbox=SandboxOptions())),
        replace(REQUEST, options=ShareOptions(sandbox=SandboxOptions(write=("/x",)))),
    ],
)
def test_hosts_with_another_command_folder_environment_or_option_do_not_share(other):
    assert sharing_key(other) != sharing_key(REQUEST)


def test_hosts_in_two_terminals_share():
    other = replace(REQUEST, environment={"TERM_SESSION_ID": "2", "A": "1", "SHLVL": "3"}, pid=7, host=8)
    assert sharing_key(other) == sharing_key(REQUEST)


def test_secrets_are_not_shown():
    assert "hunter2" not in repr(replace(REQUEST, environment={"TOKEN": "hunter2"}))
