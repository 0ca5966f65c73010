"""Walking the pages of a list, without a server."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twopipes._client.pagination import PageWalk
from twopipes._protocol.types import (
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    Prompt,
    Resource,
    ResourceTemplate,
    Tool,
)
from twopipes.errors import ConnectionLost, InternalError, InvalidParams, LocalProtocolError, RemoteProtocolError
from twopipes.settings import Limits


def tools(*names):
    return [Tool(name, {"type": "object"}) for name in names]


def page(*names, following=None, **options):
    return ListToolsResult(tools(*names), following, **options)


def walk(*pages, times=None, **options):
    """Return a walk that was fed these pages."""
    walked = PageWalk("tools/list", **options)
    for number, each in enumerate(pages):
        walked.feed(each, now=0.0 if times is None else times[number])
    return walked


def names_of(result):
    return [tool.name for tool in result.tools]


@given(st.lists(st.tuples(st.text(), st.integers(0, 7)), max_size=20, unique_by=lambda each: each[0]))
def test_every_page_is_asked_for_with_the_cursor_as_it_was_given_and_all_items_come_together(links):
    """PG-01, PG-02, PG-04: pages of any length, none included, and cursors of any kind, the empty one included."""
    cursors, sizes = [None, *(cursor for cursor, _ in links)], [*(size for _, size in links), 3]
    walked, asked, served = PageWalk("tools/list"), [], []
    while not walked.is_done:
        number = len(asked)
        asked.append(walked.cursor)
        names = [f"{number}.{each}" for each in range(sizes[number])]
        served += names
        following = cursors[number + 1] if number + 1 < len(cursors) else None
        assert walked.feed(page(*names, following=following), now=0.0) is (following is not None)
    assert asked == cursors
    assert names_of(walked.result()) == [tool.name for tool in walked._items] == served


@pytest.mark.parametrize(
    ("page_type", "name", "items"),
    [
        (ListToolsResult, "tools", tools("a")),
        (ListPromptsResult, "prompts", [Prompt("a")]),
        (ListResourcesResult, "resources", [Resource("a:b", "b")]),
        (ListResourceTemplatesResult, "resource_templates", [ResourceTemplate("a:{b}", "b")]),
    ],
)
def test_every_kind_of_list_can_be_walked(page_type, name, items):
    """PG-01."""
    walked = PageWalk("any/list")
    assert walked.feed(page_type(items, "next"), now=0.0)
    assert not walked.feed(page_type(items), now=0.0)
    assert walked.result() == page_type(items + items)
    assert getattr(walked.result(), name) == walked._items


def test_a_page_without_a_cursor_ends_the_walk():
    """PG-03."""
    walked = PageWalk("tools/list")
    assert walked.cursor is None
    assert walked.feed(page("a"), now=0.0) is False
    assert walked.is_done
    assert names_of(walked.result()) == ["a"]


def test_an_empty_string_is_a_cursor():
    """PG-04."""
    walked = walk(page("a", following=""))
    assert not walked.is_done
    assert walked.cursor == ""
    assert not walked.feed(page("b"), now=0.0)


def test_in_a_legacy_session_an_empty_cursor_ends_the_list():
    walked = walk(page("a", following="x"), page("b", following=""), legacy=True)
    assert walked.is_done
    assert names_of(walked.result()) == ["a", "b"]


def test_an_empty_page_in_the_middle_is_a_page():
    """PG-02."""
    assert names_of(walk(page(following="1"), page(following="2"), page("a")).result()) == ["a"]


@pytest.mark.parametrize("cursors", [["x", "x"], ["a", "b", "c", "a"], ["", ""]])
def test_a_walk_in_circles_is_stopped(cursors):
    """PG-06."""
    walked = PageWalk("tools/list")
    for cursor in cursors[:-1]:
        assert walked.feed(page(following=cursor), now=0.0)
    with pytest.raises(RemoteProtocolError, match=rf"page {len(cursors)} of tools/list leads back") as caught:
        walked.feed(page(following=cursors[-1]), now=0.0)
    assert caught.value.excerpt == cursors[-1].encode()


def test_a_long_cursor_is_cut_in_the_error():
    """PG-06."""
    walked = walk(page(following="\ud800" + "x" * 10_000))
    with pytest.raises(RemoteProtocolError) as caught:
        walked.feed(page(following="\ud800" + "x" * 10_000), now=0.0)
    assert caught.value.excerpt == b"\\ud800" + b"x" * 250


def test_a_list_that_always_has_another_page_is_stopped():
    """PG-06."""
    walked = PageWalk("tools/list")
    for number in range(999):
        walked.feed(page("a", following=str(number)), now=0.0)
    with pytest.raises(
        RemoteProtocolError,
        match=r"tools/list has more than 1000 pages \(1000 items so far\); pass limits=Limits\(max_pages=2000\)",
    ):
        walked.feed(page("a", following="on and on"), now=0.0)


def test_the_last_page_that_is_allowed_may_be_the_last():
    assert walk(page("a", following="1"), page("b"), limits=Limits(max_pages=2)).is_done


def test_a_list_of_too_many_items_is_stopped_however_few_pages_it_has():
    walked = walk(page("a", "b", following="1"), limits=Limits(max_listed=3))
    with pytest.raises(RemoteProtocolError, match=r"the limit is 3; pass limits=Limits\(max_listed=6\)"):
        walked.feed(page("c", "d"), now=0.0)


def test_both_limits_can_be_switched_off():
    walked = PageWalk("tools/list", limits=Limits(max_pages=None, max_listed=None))
    for number in range(1_001):
        assert walked.feed(page("a", following=str(number)), now=0.0)


# A cursor that the server rejects


def test_a_rejected_cursor_starts_the_walk_again_without_one():
    """CH-09."""
    walked = walk(page("old", following="1", ttl_ms=5))
    assert walked.restart(InvalidParams("bad cursor"))
    assert walked.cursor is None
    assert walked._items == []
    # The cursors of the first walk may come again, and what was dropped has no part in the result.
    walked.feed(page("a", following="1", ttl_ms=1000), now=10.0)
    walked.feed(page("b", ttl_ms=1000), now=10.0)
    assert names_of(walked.result()) == ["a", "b"]
    assert walked.result().ttl_ms == 1000


def test_the_walk_starts_again_once_only():
    """CH-09, PG-06."""
    walked = walk(page(following="1"))
    assert walked.restart(InvalidParams("bad cursor"))
    walked.feed(page(following="1"), now=0.0)
    assert not walked.restart(InvalidParams("bad cursor"))


@pytest.mark.parametrize("error", [InternalError("boom"), ConnectionLost("tools/list", 1)], ids=repr)
def test_another_error_does_not_restart_the_walk(error):
    assert not walk(page(following="1")).restart(error)


def test_an_error_for_the_first_page_does_not_restart_the_walk():
    assert not PageWalk("tools/list").restart(InvalidParams("no"))


# The lifetime of the whole list


@pytest.mark.parametrize(
    ("ttls", "times", "left"),
    [
        ([1000], [5.0], 1000),
        ([3000, 1000, 2000], [0.0, 0.0, 0.0], 1000),
        ([3000, 2000], [0.0, 2.0], 1000),  # the first page has lived two of its three seconds
        ([1000, 9000], [0.0, 1.0], None),  # it was stale before the last one came
        ([1000, None], [0.0, 0.0], None),
        ([0, 1000], [0.0, 0.0], None),
        ([1000, -5], [0.0, 0.0], None),
        ([10**400], [0.0], 10**15),
    ],
)
def test_the_whole_is_as_fresh_as_its_stalest_page(ttls, times, left):
    """CH-03, CH-08."""
    pages = [page(following=str(number), ttl_ms=ttl) for number, ttl in enumerate(ttls[:-1])]
    assert walk(*pages, page(ttl_ms=ttls[-1]), times=times).result().ttl_ms == left


@pytest.mark.parametrize(
    ("scopes", "whole"),
    [
        (["public", "public"], "public"),
        (["private", "private"], "private"),
        (["public", "private"], "private"),
        (["public", None], "private"),
        ([None, None], None),
    ],
)
def test_one_private_page_makes_the_whole_private(scopes, whole):
    """CH-06, CH-08."""
    first, last = scopes
    assert walk(page(following="1", cache_scope=first), page(cache_scope=last)).result().cache_scope == whole


def test_the_result_looks_like_a_single_page():
    walked = walk(page("a", following="1", meta={"x": 1}, result_type="complete"), page("b", meta={"x": 2}))
    assert walked.result() == page("a", "b", meta={"x": 1}, result_type="complete")


def test_what_was_handed_out_does_not_change_the_walk():
    first = page("a", following="1")
    walked = walk(first, page("b"))
    walked.result().tools.clear()
    walked.result().tools.clear()
    assert names_of(walked.result()) == ["a", "b"]
    assert names_of(first) == ["a"]


def test_a_walk_has_a_result_only_at_its_end_and_then_takes_no_more_pages():
    with pytest.raises(LocalProtocolError, match="tools/list has more pages"):
        PageWalk("tools/list").result()
    with pytest.raises(LocalProtocolError, match="tools/list has more pages"):
        walk(page(following="1")).result()
    with pytest.raises(LocalProtocolError, match="has already arrived"):
        walk(page()).feed(page(), now=0.0)
