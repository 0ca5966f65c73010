"""Which tools a filter selects."""

import pytest

from twopipes._host.filters import ToolFilter
from twopipes.errors import LocalProtocolError
from twopipes.types import Tool, ToolAnnotations


def tool(name="x", **claims):
    return Tool(name, {"type": "object"}, annotations=ToolAnnotations(**claims) if claims else None)


def selected(chosen, *names):
    return [name for name in names if chosen.allows(tool(name))]


def test_an_empty_filter_allows_everything():
    assert ToolFilter().allows(tool())


def test_patterns_are_those_of_a_shell_and_distinguish_case():
    names = ["read_file", "Read_file", "write_file", "list", "list2"]
    assert selected(ToolFilter(include=["read_*"]), *names) == ["read_file"]
    assert selected(ToolFilter(include=["list?", "[RW]*"]), *names) == ["Read_file", "list2"]


def test_an_excluded_name_is_left_out_also_if_it_is_included():
    assert selected(ToolFilter(include=["*_file"], exclude=["write_*"]), "read_file", "write_file") == ["read_file"]


@pytest.mark.parametrize(
    ("condition", "allowed", "refused"),
    [
        ({"read_only": True}, {"read_only_hint": True}, {}),
        ({"read_only": False}, {}, {"read_only_hint": True}),
        ({"destructive": False}, {"destructive_hint": False}, {}),
        ({"destructive": False}, {"read_only_hint": True}, {"read_only_hint": False}),
        ({"destructive": True}, {}, {"read_only_hint": True, "destructive_hint": True}),
        ({"idempotent": True}, {"idempotent_hint": True}, {}),
        ({"idempotent": True}, {"read_only_hint": True}, {"idempotent_hint": False}),
        ({"open_world": False}, {"open_world_hint": False}, {}),
    ],
)
def test_a_missing_claim_means_the_worse_case(condition, allowed, refused):
    chosen = ToolFilter(**condition)
    assert chosen.allows(tool(**allowed))
    assert not chosen.allows(tool(**refused))


def test_every_condition_must_be_met():
    chosen = ToolFilter(include=["get_*"], read_only=True)
    assert chosen.allows(tool("get_x", read_only_hint=True))
    assert not chosen.allows(tool("get_x"))
    assert not chosen.allows(tool("set_x", read_only_hint=True))


@pytest.mark.parametrize("name", ["include", "exclude"])
def test_one_pattern_instead_of_a_list_is_an_error(name):
    with pytest.raises(LocalProtocolError, match=rf"write {name}=\['get_\*'\]"):
        ToolFilter(**{name: "get_*"})
