"""The cache of results: what is stored, and for how long. No clock is read, and nothing is fetched."""

import gc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import json_objects
from twopipes._client.cache import ResultCache
from twopipes._client.pagination import PageWalk
from twopipes._protocol.dialect import dialect
from twopipes._protocol.revisions import CACHEABLE
from twopipes._protocol.types import (
    CallToolResult,
    DiscoverResult,
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    ReadResourceResult,
    ResourceContents,
    ResourceUpdatedParams,
    ServerCapabilities,
    Tool,
)

MINUTE = 60_000
RESULTS = {
    "server/discover": DiscoverResult(["2026-07-28"], ServerCapabilities(tools={"listChanged": True}), ttl_ms=MINUTE),
    "tools/list": ListToolsResult([Tool("echo", {"type": "object", "properties": {"text": {}}})], ttl_ms=MINUTE),
    "prompts/list": ListPromptsResult([], ttl_ms=MINUTE),
    "resources/list": ListResourcesResult([], ttl_ms=MINUTE),
    "resources/templates/list": ListResourceTemplatesResult([], ttl_ms=MINUTE),
    "resources/read": ReadResourceResult([ResourceContents("a:b", text="hello")], ttl_ms=MINUTE, cache_scope="private"),
}
UPDATED = "notifications/resources/updated"


def read(*uris, ttl_ms=MINUTE, text="", **options):
    return ReadResourceResult([ResourceContents(uri, text=text) for uri in uris], ttl_ms=ttl_ms, **options)


def keep(cache, method, key="", result=None, *, now=0.0):
    return cache.put(cache.begin(method, key), result or RESULTS[method], now=now)


def kept(cache, *, now=0.0):
    known = list(cache._entries)
    return {key if method == "resources/read" else method for method, key in known if cache.get(method, key, now=now)}


@pytest.fixture
def cache():
    return ResultCache()


@pytest.fixture
def full(cache):
    """Return a cache with one result of every kind."""
    for method, result in RESULTS.items():
        assert keep(cache, method, "a:b" if method == "resources/read" else "", result)
    return cache


# What is stored, and for how long


def test_the_six_results_with_a_time_to_live_are_kept(full):
    """CH-01, CH-03."""
    assert RESULTS.keys() == set(CACHEABLE)
    for method, result in RESULTS.items():
        assert full.get(method, "a:b" if method == "resources/read" else "", now=59.9) == result


def test_a_result_is_fresh_until_its_time_is_over_and_not_a_moment_longer(cache):
    """CH-03."""
    keep(cache, "tools/list", now=100.0)
    assert cache.get("tools/list", now=159.999)
    assert cache.get("tools/list", now=160.0) is None
    assert len(cache) == 0


@pytest.mark.parametrize("ttl_ms", [0, -5, -(10**30), None])
def test_a_result_without_a_time_to_live_is_stale_from_the_start(cache, ttl_ms):
    """CH-03; a legacy server never gives one."""
    assert not keep(cache, "resources/read", "a:b", read("a:b", ttl_ms=ttl_ms))
    assert cache.get("resources/read", "a:b", now=0.0) is None


def test_a_stale_answer_replaces_a_fresh_one_by_nothing(cache):
    """CH-03: the server has changed its mind."""
    keep(cache, "tools/list", result=ListToolsResult([], ttl_ms=MINUTE))
    assert not keep(cache, "tools/list", result=ListToolsResult([], ttl_ms=0), now=1.0)
    assert cache.get("tools/list", now=1.0) is None


@pytest.mark.parametrize("ttl_ms", [2**53, 10**30, 10**400])
def test_an_absurd_time_to_live_is_a_long_one(cache, ttl_ms):
    """CH-03."""
    assert keep(cache, "tools/list", result=ListToolsResult([], ttl_ms=ttl_ms), now=1e9)
    assert cache.get("tools/list", now=2e9)


@pytest.mark.parametrize(
    "result",
    [
        InputRequiredResult(request_state="s", result_type="input_required"),
        read("a:b", result_type="input_required"),
        read("a:b", result_type="task"),
        CallToolResult([]),
        GetPromptResult([]),
        None,
        {"ttlMs": 1000},
    ],
    ids=repr,
)
def test_only_a_complete_cacheable_result_is_stored(cache, result):
    """CH-05."""
    assert not cache.put(cache.begin("resources/read", "a:b"), result, now=0.0)
    assert len(cache) == 0


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "com.example/list"])
def test_a_method_that_is_not_cacheable_is_never_kept(cache, method):
    """CH-01."""
    assert not cache.put(cache.begin(method), read("a:b"), now=0.0)


def test_what_a_request_gives_after_the_user_was_asked_is_not_kept(cache):
    """CH-05: the fetch ended with the first result."""
    fetch = cache.begin("resources/read", "a:b")
    assert not cache.put(fetch, InputRequiredResult(request_state="s", result_type="input_required"), now=0.0)
    assert not cache.put(fetch, read("a:b"), now=1.0)
    given_back = cache.begin("resources/read", "a:b")
    cache.discard(given_back)
    assert not cache.put(given_back, read("a:b"), now=1.0)


def test_a_result_answers_only_what_it_was_asked_for(cache):
    """CH-04."""
    keep(cache, "resources/read", "a:b")
    assert cache.get("resources/read", "a:c", now=0.0) is None
    assert cache.get("resources/read", "A:B", now=0.0) is None
    assert cache.get("resources/list", now=0.0) is None
    assert cache.get("resources/read", "a:b", now=0.0)


def test_a_walked_list_is_kept_as_long_as_its_stalest_page(cache):
    """CH-03, CH-08."""
    fetch, walk = cache.begin("tools/list"), PageWalk("tools/list")
    walk.feed(ListToolsResult([Tool("a", {})], "1", ttl_ms=10_000), now=0.0)
    walk.feed(ListToolsResult([Tool("b", {})], ttl_ms=60_000), now=4.0)
    assert cache.put(fetch, walk.result(), now=4.0)
    assert [tool.name for tool in cache.get("tools/list", now=9.9).tools] == ["a", "b"]
    assert cache.get("tools/list", now=10.0) is None


def test_two_clients_share_nothing():
    """CH-06."""
    mine, yours = ResultCache(), ResultCache()
    keep(mine, "resources/read", "a:b")
    assert yours.get("resources/read", "a:b", now=0.0) is None


def test_a_caller_cannot_change_a_cached_result(cache):
    result = ListToolsResult([Tool("echo", {"properties": {"text": {"enum": ["a"]}}})], ttl_ms=MINUTE, meta={"seen": []})

    def meddle(found):
        found.tools[0].input_schema["properties"]["text"]["enum"].append("b")
        found.meta["seen"].append(1)
        found.tools.clear()

    keep(cache, "tools/list", result=result)
    meddle(result)
    for _ in range(2):
        found = cache.get("tools/list", now=0.0)
        assert found.tools == [Tool("echo", {"properties": {"text": {"enum": ["a"]}}})]
        assert found.meta == {"seen": []}
        meddle(found)


# Changes


@pytest.mark.parametrize(
    ("method", "stale"),
    [
        ("notifications/tools/list_changed", {"tools/list"}),
        ("notifications/prompts/list_changed", {"prompts/list"}),
        ("notifications/resources/list_changed", {"resources/list", "resources/templates/list"}),
        ("notifications/message", set()),
        ("notifications/com.example/changed", set()),
    ],
)
def test_a_changed_list_is_stale_at_once_and_the_others_are_not(full, method, stale):
    """CH-07."""
    before = kept(full)
    assert len(before) == 6
    full.on_notification(method)
    assert before - kept(full) == stale


@pytest.mark.parametrize(
    ("changed", "stale"),
    [
        ("file:///d", {"file:///d", "file:///d/", "file:///d/a", "file:///d/a/b", "file:///d?x", "file:///"}),
        ("file:///d/", {"file:///d", "file:///d/", "file:///d/a", "file:///d/a/b", "file:///d?x", "file:///"}),
        ("file:///d/a", {"file:///d", "file:///d/", "file:///d/a", "file:///d/a/b", "file:///"}),
        ("file:///d/new", {"file:///d", "file:///d/", "file:///"}),
        ("file:///d/a#top", {"file:///d", "file:///d/", "file:///d/a", "file:///"}),
        ("file:///dd/e", {"file:///dd", "file:///"}),
        ("http://d", set()),
    ],
)
def test_a_changed_resource_makes_itself_and_what_is_above_and_below_stale(cache, changed, stale):
    """CH-07, RS-04, SU-09."""
    uris = {"file:///", "file:///d", "file:///d/", "file:///d/a", "file:///d/a/b", "file:///d?x", "file:///dd", "urn:x"}
    for uri in uris:
        keep(cache, "resources/read", uri, read(uri))
    cache.on_notification(UPDATED, ResourceUpdatedParams(changed))
    assert uris - kept(cache) == stale


def test_a_read_that_brought_the_changed_resource_along_is_stale(cache):
    """CH-07, RS-02."""
    keep(cache, "resources/read", "db:all", read("db:1", "db:2"))
    keep(cache, "resources/read", "db:3", read("db:3"))
    cache.on_notification(UPDATED, ResourceUpdatedParams("db:2"))
    assert kept(cache) == {"db:3"}


def test_an_update_without_a_uri_drops_all_reads(full):
    for params in (None, {}, {"uri": 5}):
        keep(full, "resources/read", "a:b")
        full.on_notification(UPDATED, params)
        assert full.get("resources/read", "a:b", now=0.0) is None
    assert len(full) == 5


# A result that is older than a change


@pytest.mark.parametrize(
    ("method", "key", "notification", "params"),
    [
        ("tools/list", "", "notifications/tools/list_changed", None),
        ("prompts/list", "", "notifications/prompts/list_changed", None),
        ("resources/list", "", "notifications/resources/list_changed", None),
        ("resources/templates/list", "", "notifications/resources/list_changed", None),
        ("resources/read", "a:b", UPDATED, ResourceUpdatedParams("a:b")),
        ("resources/read", "a:b", UPDATED, ResourceUpdatedParams("what the answer may hold")),
    ],
)
def test_a_result_that_was_fetched_during_a_change_is_not_stored(cache, method, key, notification, params):
    """CH-07."""
    before = cache.begin(method, key)
    cache.on_notification(notification, params)
    after = cache.begin(method, key)
    assert not cache.put(before, RESULTS[method], now=0.0)
    assert cache.put(after, RESULTS[method], now=0.0)


def test_an_unrelated_change_does_not_affect_a_fetch_in_progress(cache):
    fetch = cache.begin("tools/list")
    cache.on_notification("notifications/prompts/list_changed")
    cache.on_notification(UPDATED, ResourceUpdatedParams("a:b"))
    assert cache.put(fetch, RESULTS["tools/list"], now=0.0)


def test_a_cleared_cache_is_empty_and_stays_so(full):
    fetch = full.begin("tools/list")
    full.clear()
    assert not full.put(fetch, RESULTS["tools/list"], now=0.0)
    assert len(full) == 0
    assert full._bytes == 0


def test_a_slow_answer_does_not_replace_that_to_a_later_question(cache):
    early, late = cache.begin("tools/list"), cache.begin("tools/list")
    assert cache.put(late, ListToolsResult([Tool("new", {})], ttl_ms=1000), now=0.0)
    assert not cache.put(early, ListToolsResult([Tool("old", {})], ttl_ms=MINUTE), now=0.5)
    assert cache.get("tools/list", now=0.5).tools[0].name == "new"


def test_a_request_that_fails_leaves_no_fetch_behind(cache):
    fetch = cache.begin("tools/list")
    assert len(cache._in_progress) == 1
    del fetch
    gc.collect()
    assert len(cache._in_progress) == 0


# How much


def test_the_one_that_was_not_asked_for_the_longest_gives_way():
    cache = ResultCache(max_entries=2)
    keep(cache, "resources/read", "a:1")
    keep(cache, "resources/read", "a:2")
    assert cache.get("resources/read", "a:1", now=0.0)
    keep(cache, "resources/read", "a:3")
    assert kept(cache) == {"a:1", "a:3"}


def test_many_bytes_push_others_out_and_too_many_are_not_kept():
    cache = ResultCache(max_bytes=10_000)
    for number in range(3):
        assert keep(cache, "resources/read", f"a:{number}", read("a:b", text="x" * 4_000))
    assert kept(cache) == {"a:1", "a:2"}
    assert not keep(cache, "resources/read", "a:9", read("a:b", text="x" * 10_000))
    assert kept(cache) == {"a:1", "a:2"}


def test_a_cache_without_room_keeps_nothing():
    assert not keep(ResultCache(max_entries=0), "tools/list")
    assert not keep(ResultCache(max_bytes=0), "tools/list")


def nested(depth):
    schema = {}
    for _ in range(depth):
        schema = {"items": schema}
    return schema


def test_a_result_that_is_nested_too_deeply_is_not_stored_and_does_no_harm(cache):
    result = ListToolsResult([Tool("deep", nested(100_000))], ttl_ms=MINUTE)
    assert not keep(cache, "tools/list", result=result)
    assert len(cache) == 0


@pytest.mark.parametrize("odd", ["\ud800", 10**5_000], ids=["half a character", "an endless number"])
def test_a_result_that_json_cannot_express_is_not_stored_and_does_no_harm(cache, odd):
    assert not keep(cache, "tools/list", result=ListToolsResult([Tool("odd", {"const": odd})], ttl_ms=MINUTE))


def test_a_result_that_cannot_be_read_any_more_is_asked_for_again(cache, monkeypatch):
    keep(cache, "tools/list")

    def too_deep(*_, **__):
        raise RecursionError

    monkeypatch.setattr("twopipes._client.cache.msgspec_json.decode", too_deep)
    assert cache.get("tools/list", now=0.0) is None
    assert (len(cache), cache._bytes) == (0, 0)


@given(json_objects, st.sampled_from(["2026-07-28", "2025-11-25"]))
def test_what_came_from_a_server_comes_out_as_it_was(value, revision):
    raw = msgspec.json.encode(
        {
            "resultType": "complete",
            "ttlMs": MINUTE,
            "cacheScope": "public",
            "tools": [{"name": "a", "inputSchema": value, "_meta": value, "annotations": {"readOnlyHint": True}}],
            "_meta": value,
        }
    )
    result = dialect(revision).read_result("tools/list", raw)
    cache = ResultCache()
    assert keep(cache, "tools/list", result=result)
    assert repr(cache.get("tools/list", now=0.0)) == repr(result)


moves = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 5), st.integers(-1, 20_000), st.integers(0, 3_000)),
        st.tuples(st.just("get"), st.integers(0, 5)),
        st.tuples(st.just("wait"), st.integers(0, 10)),
        st.tuples(st.just("drop"), st.integers(0, 5)),
    ),
    max_size=60,
)


@given(moves)
def test_the_bounds_hold_and_nothing_stale_or_foreign_ever_comes_out(moves):
    """CH-03, CH-04: in any order of events."""
    cache, now, newest = ResultCache(max_entries=3, max_bytes=5_000), 0.0, {}
    for name, value, *rest in moves:
        uri = f"a:{value}"
        if name == "put":
            ttl_ms, length = rest
            result = read(uri, ttl_ms=ttl_ms, text="x" * length)
            keep(cache, "resources/read", uri, result, now=now)
            newest[uri] = (result, now + ttl_ms / 1000)
        elif name == "get":
            found = cache.get("resources/read", uri, now=now)
            assert found is None or (found == newest[uri][0] and now < newest[uri][1])
        elif name == "wait":
            now += value
        else:
            cache.drop("resources/read", uri)
            assert cache.get("resources/read", uri, now=now) is None
        assert len(cache) <= 3
        assert cache._bytes == sum(len(entry.raw) for entry in cache._entries.values()) <= 5_000
