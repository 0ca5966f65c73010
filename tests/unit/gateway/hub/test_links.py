"""URIs in the results of servers: which are found, and how many are kept."""

import json

import pytest
from msgspec import Raw

from twopipes._gateway.hub import links as module
from twopipes._gateway.hub.links import Links, linked_uris


def result(**members):
    return Raw(json.dumps(members).encode())


def link(uri):
    return {"type": "resource_link", "uri": uri, "name": "n"}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (result(content=[link("a:1"), {"type": "text", "text": "x"}]), ["a:1"]),
        (result(content=[{"type": "resource", "resource": {"uri": "a:2", "text": ""}}]), ["a:2"]),
        (result(messages=[{"role": "user", "content": link("a:3")}]), ["a:3"]),
        (result(messages=[{"role": "user", "content": [link("a:4")]}, {"role": "user"}]), ["a:4"]),
        (result(contents=[{"uri": "a:5"}, {"uri": ""}]), ["a:5"]),
        (result(content=[]), []),
        (result(content="uri", uri="a:1"), []),
        (result(content=[{"uri": 1}]), []),
        (Raw(b'["uri"]'), []),
        (Raw(b'{"uri": '), []),
        (Raw(b'{"content": [{"uri": "\xff"}]}'), []),
        (Raw(b'{"uri":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), []),
    ],
)
def test_links_and_embedded_resources_are_found(raw, expected):
    assert list(linked_uris(raw)) == expected


def test_the_first_server_keeps_a_link_until_it_is_removed():
    links = Links()
    links.add("x", result(content=[link("a:1")]))
    links.add("y", result(content=[link("a:1"), link("a:2")]))
    assert (links.server_of("a:1"), links.server_of("a:2"), links.server_of("a:3")) == ("x", "y", None)
    links.forget("x")
    assert (links.server_of("a:1"), links.server_of("a:2")) == (None, "y")


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "_MAX_LINKS", 3)
    links = Links()
    links.add("x", result(content=[link(f"a:{number}") for number in range(5)] + [link("a:" + "x" * 3000)]))
    assert [links.server_of(f"a:{number}") for number in range(5)] == [None, None, "x", "x", "x"]
    assert links.server_of("a:" + "x" * 3000) is None
    links.add("x", result(content=[link("b:1")], filler="x" * 1024 * 1024))
    assert links.server_of("b:1") is None
