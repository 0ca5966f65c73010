"""Which listens get which change; what is written is tested in test_server_side."""

import pytest

from sessions import EVERYTHING
from twopipes._protocol.types import ServerCapabilities, SubscriptionFilter
from twopipes._session.subscriptions import Change, Subscriptions, honoured
from twopipes.errors import InternalError
from twopipes.settings import Limits

ALL = ServerCapabilities(**EVERYTHING)
TOOLS = Change("tools")


def bus(**limits):
    return Subscriptions(limits=Limits(**limits))


def watching(*uris):
    return SubscriptionFilter(resource_subscriptions=list(uris))


def test_only_what_is_asked_and_declared_is_honoured():
    """SU-05, SU-06, SU-17."""
    asked = SubscriptionFilter(
        tools_list_changed=True, prompts_list_changed=True, resources_list_changed=False, resource_subscriptions=["a", "b", "a"]
    )
    assert honoured(asked, ALL) == SubscriptionFilter(
        tools_list_changed=True, prompts_list_changed=True, resource_subscriptions=["a", "b"]
    )
    everything = SubscriptionFilter(
        tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True, resource_subscriptions=["a"]
    )
    assert honoured(everything, ServerCapabilities()) == SubscriptionFilter()
    assert honoured(everything, ServerCapabilities(tools={}, prompts={"listChanged": False}, resources={})) == SubscriptionFilter()
    assert honoured(everything, ServerCapabilities(resources={"listChanged": True})) == SubscriptionFilter(
        resources_list_changed=True
    )
    assert honoured(SubscriptionFilter(resource_subscriptions=[]), ALL) == SubscriptionFilter()


def test_each_listen_gets_what_it_asked_for_in_the_order_of_opening():
    """SU-05, SU-10."""
    listens = bus()
    listens.listen(7, SubscriptionFilter(tools_list_changed=True))
    listens.listen("7", SubscriptionFilter(tools_list_changed=True, prompts_list_changed=True))
    listens.listen(8, SubscriptionFilter(resources_list_changed=True))
    assert listens.listens_for(TOOLS) == [7, "7"]
    assert listens.listens_for(Change("prompts")) == ["7"]
    assert listens.listens_for(Change("resources")) == [8]
    assert listens.listens_for(Change("resource", "file:///a")) == []
    assert list(listens) == [7, "7", 8]


def test_an_ended_listen_gets_nothing_and_the_others_continue():
    """SU-10, SU-11."""
    listens = bus()
    for each in (1, 2):
        listens.listen(each, SubscriptionFilter(tools_list_changed=True, resource_subscriptions=["file:///a"]))
    assert listens.end(1)
    assert not listens.end(1)
    assert 1 not in listens
    assert 2 in listens
    assert listens.listens_for(TOOLS) == [2]
    assert listens.listens_for(Change("resource", "file:///a")) == [2]
    assert listens.end(2)
    assert len(listens) == 0
    assert listens.listens_for(Change("resource", "file:///a")) == []
    assert listens._watchers == {}
    assert listens._watched == 0


@pytest.mark.parametrize(
    ("watched", "changed", "is_notified"),
    [
        ("file:///a/b", "file:///a/b", True),
        ("file:///a", "file:///a/b", True),
        ("file:///a/", "file:///a/b", True),
        ("file:///a", "file:///a/b/c", True),
        ("file:///a", "file:///a/", True),
        ("file:///", "file:///a", True),
        ("file:///a/b", "file:///a", False),
        ("file:///a", "file:///ab", False),
        ("file:///a/", "file:///a", False),
        ("file:///a/b", "file:///a/c", False),
        ("http://h", "http://h/x", True),
        ("http:", "http://h/x", False),
        ("http:/", "http://h/x", False),
        ("plain", "plain/x", True),
        ("plain", "plain", True),
    ],
)
def test_a_watcher_of_a_collection_is_notified_of_its_members(watched, changed, is_notified):
    """SU-09, RS-04."""
    listens = bus()
    listens.listen(1, watching(watched))
    assert listens.listens_for(Change("resource", changed)) == ([1] if is_notified else [])
    listens.watch(watched)
    assert listens.session_wants(Change("resource", changed), ALL) is is_notified


def test_a_change_is_sent_to_a_listen_once_however_often_it_matches():
    listens = bus()
    listens.listen(2, watching("file:///a", "file:///a/", "file:///a/b"))
    listens.listen(1, watching("file:///a/b"))
    assert listens.listens_for(Change("resource", "file:///a/b")) == [2, 1]


def test_the_session_is_notified_of_declared_lists_and_watched_resources():
    """RS-03, RS-04."""
    session = bus()
    assert session.session_wants(TOOLS, ALL)
    assert not session.session_wants(TOOLS, ServerCapabilities(tools={}))
    change = Change("resource", "file:///a")
    assert not session.session_wants(change, ALL)
    session.watch("file:///a")
    session.watch("file:///a")
    assert session.session_wants(change, ALL)
    session.unwatch("file:///a")
    session.unwatch("file:///a")
    assert not session.session_wants(change, ALL)


def test_listens_are_bounded():
    """SU-18."""
    listens = bus(max_listens=2)
    listens.listen(1, SubscriptionFilter())
    listens.listen(2, SubscriptionFilter())
    with pytest.raises(InternalError, match="2 subscriptions"):
        listens.listen(3, SubscriptionFilter())
    listens.end(1)
    listens.listen(3, SubscriptionFilter())


def test_watched_resources_are_bounded_over_all_subscriptions():
    """SU-18."""
    listens = bus(max_watched=3)
    listens.listen(1, watching("a", "b"))
    listens.watch("c")
    with pytest.raises(InternalError, match="limit is 3"):
        listens.watch("d")
    with pytest.raises(InternalError, match="limit is 3"):
        listens.listen(2, watching("a"))
    assert 2 not in listens
    listens.end(1)
    listens.watch("d")
    listens.unwatch("c")
    listens.listen(2, watching("a", "b"))


def test_limits_can_be_switched_off():
    listens = bus(max_listens=None, max_watched=None)
    for number in range(2000):
        listens.listen(number, watching(str(number)))
    assert len(listens) == 2000


def test_equal_changes_are_one():
    assert {TOOLS, Change("tools"), Change("resource", "a"), Change("resource", "a")} == {TOOLS, Change("resource", "a")}
    assert Change("prompts") != TOOLS
    assert TOOLS != "tools"
    assert TOOLS.method == "notifications/tools/list_changed"
    assert Change("resource", "a").method == "notifications/resources/updated"
