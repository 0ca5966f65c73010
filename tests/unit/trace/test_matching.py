"""What is the same in two conversations, and what does not count."""

import pytest
from msgspec import UNSET

from twopipes._trace.matching import SERVER_INFO, Difference, Ignoring, differences, pair_questions, unmatched

NOTHING = Ignoring()


def paths(recorded, live, *ignore):
    return [difference.path for difference in differences(recorded, live, Ignoring(ignore))]


@pytest.mark.parametrize(
    "value", [None, True, 1, 1.5, "text", [], {}, [1, [2, {"a": None}]], {"result": {"content": [{"type": "text", "text": "5"}]}}]
)
def test_a_value_is_the_same_as_itself(value):
    assert differences(value, value, NOTHING) == []


def test_a_difference_has_a_path_and_both_values():
    recorded = {"result": {"content": [{"type": "text", "text": "5"}]}}
    live = {"result": {"content": [{"type": "text", "text": "6"}]}}
    assert differences(recorded, live, NOTHING) == [Difference("result.content.0.text", "5", "6")]


def test_what_is_missing_and_what_is_new_is_unset_on_the_other_side():
    found = differences({"result": {"a": 1}}, {"result": {"b": 2}}, NOTHING)
    assert found == [Difference("result.a", 1, UNSET), Difference("result.b", UNSET, 2)]


def test_an_error_instead_of_a_result():
    found = differences({"result": {}}, {"error": {"code": -32601, "message": "no"}}, NOTHING)
    assert [(each.path, each.live) for each in found] == [("result", UNSET), ("error", {"code": -32601, "message": "no"})]


@pytest.mark.parametrize(
    ("one", "other", "same"), [(1, 1.0, True), (1, True, False), (0, False, False), (None, 0, False), ("1", 1, False)]
)
def test_numbers_are_numbers_and_nothing_else_is(one, other, same):
    assert (differences({"a": one}, {"a": other}, NOTHING) == []) is same


def test_the_order_of_members_does_not_count():
    assert differences({"a": 1, "b": 2}, {"b": 2, "a": 1}, NOTHING) == []


# Lists


def test_lists_are_compared_in_their_places():
    assert paths({"a": [1, 2, 3]}, {"a": [1, 3]}) == ["a.1", "a.2"]
    assert paths({"a": [1]}, {"a": [1, 2]}) == ["a.1"]


def tools(*names, **more):
    return {"result": {"tools": [{"name": name, "description": more.get(name, "")} for name in names]}}


def test_a_new_tool_is_one_difference_at_any_position():
    (found,) = differences(tools("b", "c"), tools("a", "b", "c"), NOTHING)
    assert (found.path, found.name, found.recorded) == ("result.tools.0", "a", UNSET)


def test_a_changed_tool_is_named():
    (found,) = differences(tools("a", "b"), tools("a", "b", b="new"), NOTHING)
    assert (found.path, found.name, found.live) == ("result.tools.1.description", "b", "new")


def test_another_order_of_tools_is_one_difference():
    (found,) = differences(tools("a", "b"), tools("b", "a"), NOTHING)
    assert found == Difference("result.tools", ["a", "b"], ["b", "a"], "order")


def test_entries_with_the_same_name_are_compared_in_their_places():
    recorded = {"result": {"contents": [{"uri": "a", "text": "1"}, {"uri": "a", "text": "2"}]}}
    live = {"result": {"contents": [{"uri": "a", "text": "1"}, {"uri": "a", "text": "3"}]}}
    assert paths(recorded, live) == ["result.contents.1.text"]


# What does not count


def test_an_ignored_name_is_ignored_everywhere():
    recorded = {"result": {"time": 1, "deep": [{"time": 2, "other": 3}]}}
    live = {"result": {"deep": [{"time": 5, "other": 3}]}}
    assert paths(recorded, live) == ["result.time", "result.deep.0.time"]
    assert paths(recorded, live, "time") == []


def test_an_ignored_path_is_ignored_in_one_place_only():
    recorded = {"result": {"content": [{"text": "a"}, {"text": "b"}]}}
    live = {"result": {"content": [{"text": "x"}, {"text": "y"}]}}
    assert paths(recorded, live, "result.content.0.text") == ["result.content.1.text"]
    assert paths(recorded, live, "result.content.*.text") == []
    assert paths(recorded, live, "result.content") == []


def test_a_name_with_dots_in_it_is_a_name():
    recorded = {"result": {"_meta": {"com.example/time": 1}}}
    assert paths(recorded, {"result": {"_meta": {"com.example/time": 2}}}, "com.example/time") == []


def test_the_servers_name_can_be_left_out():
    recorded = {"result": {"_meta": {"io.modelcontextprotocol/serverInfo": {"name": "a", "version": "1"}, "other": 1}}}
    live = {"result": {"_meta": {"io.modelcontextprotocol/serverInfo": {"name": "a", "version": "2"}, "other": 2}}}
    assert paths(recorded, live, SERVER_INFO) == ["result._meta.other"]


@pytest.mark.parametrize("name", ["requestState", "nextCursor"])
def test_the_value_of_a_state_does_not_count_but_that_there_is_one_does(name):
    assert paths({"result": {name: "a"}}, {"result": {name: "b"}}) == []
    assert paths({"result": {name: "a"}}, {"result": {}}) == [f"result.{name}"]
    assert paths({"result": {}}, {"result": {name: "b"}}) == [f"result.{name}"]
    assert paths({"result": {name: "a"}}, {"result": {}}, name) == []


def test_a_member_of_a_tools_own_output_counts_whatever_its_name():
    recorded = {"result": {"structuredContent": {"nextCursor": "a"}}}
    assert paths(recorded, {"result": {"structuredContent": {"nextCursor": "b"}}}) == ["result.structuredContent.nextCursor"]


# Sets


def test_sets_ignore_order_and_repetitions():
    one, two, three = {"progress": 1}, {"progress": 2}, {"progress": 3}
    assert unmatched([one, two], [two, one, one], NOTHING, "params") == ([], [])
    assert unmatched([one, two], [two, three], NOTHING, "params") == ([one], [three])


def test_ignored_members_are_ignored_in_sets():
    one, other = {"level": "info", "data": {"time": 1}}, {"level": "info", "data": {"time": 2}}
    assert unmatched([one], [other], Ignoring(["time"]), "params") == ([], [])
    assert unmatched([one], [other], Ignoring(["params.data"]), "params") == ([], [])
    assert unmatched([one], [other], NOTHING, "params") == ([one], [other])


# Questions


def ask(message, method="elicitation/create"):
    return {"method": method, "params": {"message": message}}


def test_questions_are_paired_by_their_keys():
    assert pair_questions({"a": ask("1"), "b": ask("2")}, {"b": ask("2"), "a": ask("x")}, NOTHING) == {"a": "a", "b": "b"}


def test_questions_with_other_keys_are_paired_by_what_they_ask():
    recorded = {"q1": ask("name"), "q2": ask("age"), "q3": ask("", "roots/list")}
    live = {"z1": ask("", "roots/list"), "z2": ask("age"), "z3": ask("name")}
    assert pair_questions(recorded, live, NOTHING) == {"q1": "z3", "q2": "z2", "q3": "z1"}


def test_questions_in_other_words_are_paired_by_their_kind():
    assert pair_questions({"a": ask("old")}, {"b": ask("new")}, NOTHING) == {"a": "b"}
    assert pair_questions({"a": ask("old")}, {"b": ask("", "roots/list")}, NOTHING) == {}


def test_a_blank_of_the_recorder_is_equal_to_any_value_that_is_there():
    ignoring = Ignoring(blanked=["Token"])
    recorded = {"TOKEN": "[redacted]", "other": "[redacted]", "gone": {"token": "[redacted]"}}
    live = {"TOKEN": {"type": "string"}, "other": 1, "gone": {}}
    found = differences(recorded, live, ignoring, ("result",))
    assert [difference.path for difference in found] == ["result.other", "result.gone.token"]


def test_a_blanked_notification_is_the_same_as_the_live_one():
    ignoring = Ignoring(blanked=["token"])
    assert unmatched([{"data": {"token": "[redacted]"}}], [{"data": {"token": "s"}}], ignoring, "params") == ([], [])
    missing, additional = unmatched([{"data": {"token": "[redacted]"}}], [{"data": {}}], ignoring, "params")
    assert (missing, additional) == ([{"data": {"token": "[redacted]"}}], [{"data": {}}])
