"""Public names of tools: what they look like, that they never collide, and what is reported."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from twopipes._host.names import Named, NameProblem, NameTable, prefix_of, prefixed
from twopipes.errors import LocalProtocolError

ACCEPTED = re.compile(r"[a-zA-Z0-9_-]{1,64}")
SEPARATORS = ["__", "_", "-", "--", "____"]
# Many collisions: few characters, among them those of the separators and those that are replaced.
CLOSE = st.text("ab_-. é", max_size=6)
ANY = st.text(max_size=80) | CLOSE


def table(servers, separator="__"):
    names = NameTable(separator)
    for server, tools in servers.items():
        names.replace(server, tools)
    return names


def public(names):
    return {name: entry for server in names._prefixes for name in names.names(server) if (entry := names.find(name))}


@pytest.mark.parametrize(
    ("server", "tool", "expected"),
    [
        ("time", "now", "time__now"),
        ("my server", "a.b/c", "my_server__a_b_c"),
        ("a__b", "c", "a_b__c"),
        ("a", "b__c", "a__b__c"),
        ("a_", "_b", "a___b"),
        ("日本", "道具", "server-cf2abf0c____"),
        ("x", "y" * 70, "x__" + "y" * 52 + "_a76b8d19"),
    ],
)
def test_a_public_name_is_the_users_prefix_and_the_tools_own_name(server, tool, expected):
    assert prefixed(server, tool) == expected


def test_a_long_prefix_is_cut_and_leaves_room_for_the_tool():
    name = prefixed("a-very-long-name-that-a-user-gave-to-a-server", "get_current_time")
    assert re.fullmatch(r"a-very-long-name-that-a-[0-9a-f]{8}__get_current_time", name)


@pytest.mark.parametrize("separator", ["", ".", "_____", "_-", " "])
def test_a_separator_that_models_refuse_or_that_is_ambiguous_is_an_error(separator):
    with pytest.raises(LocalProtocolError, match="one to four"):
        prefixed("a", "b", separator)
    with pytest.raises(LocalProtocolError, match="one to four"):
        NameTable(separator)


@given(ANY, ANY, st.sampled_from(SEPARATORS))
def test_every_public_name_is_one_that_models_accept(server, tool, separator):
    assert ACCEPTED.fullmatch(prefixed(server, tool, separator))


@given(CLOSE, CLOSE, CLOSE, CLOSE, st.sampled_from(SEPARATORS))
def test_servers_with_different_prefixes_never_share_a_public_name(one, his, two, hers, separator):
    assume(prefix_of(one, separator) != prefix_of(two, separator))
    assert prefixed(one, his, separator) != prefixed(two, hers, separator)


@given(st.dictionaries(CLOSE, st.lists(CLOSE, max_size=6), max_size=5), st.sampled_from(SEPARATORS))
def test_each_tool_has_one_public_name_and_each_public_name_one_tool(servers, separator):
    names = table(servers, separator)
    found = public(names)
    assert sorted(found.values()) == sorted({Named(server, tool) for server, tools in servers.items() for tool in tools})
    assert all(ACCEPTED.fullmatch(name) for name in found)


@given(st.dictionaries(CLOSE, st.lists(CLOSE, max_size=6), max_size=4), st.data())
def test_replacing_the_tools_of_a_server_leaves_the_names_of_the_others(servers, data):
    assume(servers)
    names = table(servers)
    changed = data.draw(st.sampled_from(sorted(servers)))
    before = {name: entry for name, entry in public(names).items() if entry.server != changed}
    names.replace(changed, data.draw(st.lists(CLOSE, max_size=6)))
    after = {name: entry for name, entry in public(names).items() if entry.server != changed}
    assert after == before


@given(st.dictionaries(CLOSE, st.lists(CLOSE, max_size=6), max_size=4))
def test_nothing_remains_of_servers_that_were_removed(servers):
    names = table(servers)
    for server in servers:
        names.remove_server(server)
    assert [name for name, value in vars(names).items() if value] == ["separator"]
    assert names.problems() == []


def test_names_of_one_server_that_collide_get_a_hash_in_any_order_and_are_reported():
    names, other_order = table({"a": ["x.y", "x_y", "z"]}), table({"a": ["z", "x_y", "x.y"]})
    found = {entry.name: name for name, entry in public(names).items()}
    assert found == {entry.name: name for name, entry in public(other_order).items()}
    assert re.fullmatch(r"a__x_y_[0-9a-f]{8}", found["x.y"])
    assert re.fullmatch(r"a__x_y_[0-9a-f]{8}", found["x_y"])
    assert found["z"] == "a__z"
    assert names.problems() == [NameProblem("collision", "a", "x_y", "a", "x.y")]


def test_a_tool_cannot_take_the_hashed_name_of_another_one():
    hashed = next(iter(table({"a": ["x.y", "x_y"]}).names("a"))).removeprefix("a__")
    names = table({"a": [hashed, "x.y", "x_y"]})
    assert names.find(f"a__{hashed}") == Named("a", hashed)
    assert sorted(names.names("a").values()) == sorted([hashed, "x.y", "x_y"])


def test_a_name_that_is_listed_twice_is_reported_once_and_kept_once():
    names = table({"a": ["x", "x", "x"]})
    assert dict(names.names("a")) == {"a__x": "x"}
    assert [str(problem) for problem in names.problems()] == ["'a' lists 'x' more than once; the first one is used"]


def test_the_second_server_with_the_same_prefix_gets_a_hash():
    names = table({"my server": ["x"], "my_server": ["x"]})
    assert dict(names.names("my server")) == {"my_server__x": "x"}
    (name,) = names.names("my_server")
    assert re.fullmatch(r"my_server-[0-9a-f]{8}__x", name)
    assert names.problems() == [NameProblem("collision", "my_server", "", "my server", "")]


@pytest.mark.parametrize(
    "other",
    ["GitHub", "git-hub", "git_hub", "gіthub", "ｇithub", "g1thub", "gıthub"],  # noqa: RUF001 - that is the point
)
def test_servers_that_look_alike_are_reported(other):
    problems = table({"github": ["x"], other: ["x"]}).problems()
    assert problems == [NameProblem("look-alike", other, "", "github", "")]
    assert str(problems[0]).startswith(f"the server {other!r} looks like the server 'github'")


def test_tools_that_look_alike_are_reported_in_one_server_and_across_the_separator():
    names = table({"a": ["delete_file", "deleteFile", "b_c"], "a_b": ["c"]})
    assert names.problems() == [
        NameProblem("look-alike", "a", "deleteFile", "a", "delete_file"),
        NameProblem("look-alike", "a_b", "c", "a", "b_c"),
    ]


def test_the_same_tool_in_two_servers_is_normal():
    assert table({"a": ["search"], "b": ["search"]}).problems() == []


def test_a_tool_that_begins_with_the_prefix_of_another_server_is_reported():
    names = table({"github": ["create_issue"], "evil": ["github__create_issue", "other__thing", "evil__x"]})
    assert names.problems() == [NameProblem("impersonation", "evil", "github__create_issue", "github", "")]


def test_the_number_of_problems_is_bounded():
    assert len(table({"a": [f"{'x' * n}{mark}y" for n in range(100) for mark in ("", "-", "_", ".")]}).problems()) == 100


def test_similar_names_are_suggested_also_for_a_name_without_a_prefix():
    names = table({"time": ["now", "convert"], "git": ["log"]})
    assert names.suggestions("time__nwo", 1) == ["time__now"]
    assert names.suggestions("log") == ["git__log"]
    assert names.suggestions("zzzzzzzz") == []
