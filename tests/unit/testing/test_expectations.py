"""What is expected of a JSON value."""

import pytest
from msgspec import UNSET

from twopipes._trace.matching import Difference
from twopipes.testing.expectations import describe_difference, differences


def paths(expected, found, **options):
    return [each.path for each in differences(expected, found, **options)]


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        (1, 1),
        (1, 1.0),
        (None, None),
        ("...", {"any": "thing"}),
        ({"a": "..."}, {"a": None}),
        ({"a": [1, "..."]}, {"a": [1, 2]}),
        ({"a": 1, "...": "..."}, {"a": 1, "b": 2}),
        ({"a": {"...": "..."}}, {"a": {"b": 2}}),
        ((1, 2), [1, 2]),
    ],
)
def test_what_fits(expected, found):
    assert paths(expected, found) == []


@pytest.mark.parametrize(
    ("expected", "found", "where"),
    [
        (1, 2, [""]),
        (1, True, [""]),
        (0, False, [""]),
        (1, "1", [""]),
        ("a", ["a"], [""]),
        ({"a": 1}, {}, ["a"]),
        ({"a": "..."}, {}, ["a"]),
        ({}, {"a": 1}, ["a"]),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, ["a.b.1"]),
        ([1], [1, 2], ["1"]),
        ([1, 2], [1], ["1"]),
        ({"a": 1}, [1], [""]),
        ({"a": 1, "...": "..."}, {"a": 2, "b": 2}, ["a"]),
    ],
)
def test_what_does_not(expected, found, where):
    assert paths(expected, found) == where


def test_further_members_may_be_allowed_everywhere():
    assert paths({"a": [{"b": 1}]}, {"a": [{"b": 1, "c": 2}], "d": 3}, further_members=True) == []
    assert paths({"a": [{"b": 1}]}, {"a": [{"b": 2, "c": 2}], "d": 3}, further_members=True) == ["a.0.b"]


def test_a_difference_is_described_on_one_line():
    assert describe_difference(Difference("a.b", 1, UNSET), "stored", "now") == "a.b: stored 1, now nothing"
    assert describe_difference(Difference("", "x", {"y": None}), "stored", "now") == 'the whole: stored "x", now {"y":null}'
    assert describe_difference(Difference("a", object, 1), "expected", "found").startswith("a: expected <class 'object'>, found 1")
    assert len(describe_difference(Difference("a", "x" * 10_000, 1), "expected", "found")) < 400
