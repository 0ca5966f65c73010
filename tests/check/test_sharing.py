"""Which probes share a conversation, when it is reused, and how failures in a reused one count."""

from itertools import pairwise

import pytest

from check.healthy import PERMISSIONS, new_server, served
from check.runs import run
from check.time_scale import scaled
from twopipes._tools.check.messages import ProbeTimeouts
from twopipes._tools.check.probe import Probe, all_probes, probe
from twopipes._tools.check.server_run import check_server
from twopipes._tools.check.server_source import ChannelTarget
from twopipes._tools.check.sharing import ProbeGroup, SharedConversation, plan_groups
from twopipes.errors import LocalProtocolError

LEGACY, MODERN = "2025-11-25", "2026-07-28"
WAITS = ProbeTimeouts(start=20, response=5, grace=0.02, exit=2, step=2)
ALL_CAPABILITIES = {"roots": {}}


def a_probe(name, section="FR", body=None, rules=("FR-13",), **more):
    return Probe(name=name, section=section, rules=rules, body=body, **more)


def names(groups):
    return sorted(tuple(probe.name for probe in group.probes) for group in groups)


def healthy():
    return ChannelTarget(served(new_server()), timeouts=scaled(WAITS))


# Who shares with whom


def test_probes_that_leave_nothing_behind_share_a_conversation():
    groups = plan_groups([(a_probe("a"), LEGACY), (a_probe("b", "JR"), LEGACY), (a_probe("c"), MODERN)])
    assert names(groups) == [("a", "b"), ("c",)]
    assert all(group.is_common for group in groups)


def test_a_probe_that_needs_a_fresh_conversation_gets_one():
    groups = plan_groups(
        [(a_probe("a"), LEGACY), (a_probe("b", fresh_conversation=True), LEGACY), (a_probe("c", fresh_conversation=True), LEGACY)]
    )
    assert names(groups) == [("a",), ("b",), ("c",)]
    assert sum(group.is_common for group in groups) == 1


def test_a_section_only_probe_shares_with_its_section():
    tries = [a_probe("a"), a_probe("b", section_only=True), a_probe("c", section_only=True), a_probe("d", "JR", section_only=True)]
    assert names(plan_groups((each, LEGACY) for each in tries)) == [("a",), ("b", "c"), ("d",)]


def test_probes_that_break_rules_have_their_own_conversation():
    groups = plan_groups([(a_probe("a"), LEGACY), (a_probe("b", judged=False), LEGACY)])
    assert {(group.probes[0].name, group.judged) for group in groups} == {("a", True), ("b", False)}


def test_capabilities_divide_legacy_groups_but_not_modern_ones():
    tries = [
        a_probe("a"),
        a_probe("b", client_capabilities=ALL_CAPABILITIES),
        a_probe("c", client_capabilities=dict(ALL_CAPABILITIES)),
    ]
    assert names(plan_groups((each, LEGACY) for each in tries)) == [("a",), ("b", "c")]
    assert names(plan_groups((each, MODERN) for each in tries)) == [("a", "b", "c")]


def test_many_probes_are_divided_by_section_deterministically():
    tries = [(a_probe(f"{section}-{number}", section), LEGACY) for section in ("FR", "JR", "TL", "PM") for number in range(9)]
    groups = plan_groups(tries)
    assert len(groups) == 2
    assert names(groups) == names(plan_groups(tries))
    for group in groups:
        sections = [each.section for each in group.probes]
        assert sum(one != other for one, other in pairwise(sections)) == len(set(sections)) - 1, "a section was torn apart"


def test_the_longest_group_starts_first():
    tries = [(a_probe("alone", fresh_conversation=True), LEGACY), *((a_probe(f"p{number}"), LEGACY) for number in range(5))]
    assert [len(group.probes) for group in plan_groups(tries)] == [5, 1]


@pytest.mark.parametrize(
    "both", [("fresh_conversation", "section_only"), ("opens_own", "fresh_conversation"), ("runs_last", "section_only")]
)
def test_a_probe_takes_at_most_one_option_about_sharing(both):
    with pytest.raises(LocalProtocolError, match="section_only"):
        probe("FR-13", **dict.fromkeys(both, True))


def test_the_number_of_starts_is_bounded():
    """A server may take a second to start: all of it has to fit into a minute, on two cores."""
    tries = [(each, revision) for each in all_probes() for revision in (LEGACY, MODERN)]
    assert (
        len([group for group in plan_groups(tries) if not (group.probes[0].fresh_conversation or group.probes[0].opens_own)]) <= 30
    )


# When one is handed on


async def acquired_twice(between, group=None):
    """Whether a second probe gets the conversation of the first, after what that did with it."""
    shared = SharedConversation(healthy(), group or ProbeGroup(revision=MODERN))
    try:
        conversation = await shared.acquire(a_probe("first"))
        assert not shared.is_reused
        await between(conversation)
        shared.release()
        again = await shared.acquire(a_probe("second"))
        assert shared.is_reused == (again is conversation)
        assert conversation.is_usable == (again is conversation)
        return again is conversation
    finally:
        await shared.renew()


async def asks_something(conversation):
    await conversation.request("tools/list")


async def leaves_a_request_open(conversation):
    conversation.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})


async def cancels_what_it_left_open(conversation):
    conversation.notify("notifications/cancelled", {"requestId": conversation.start("tools/list")})


async def ends_the_input(conversation):
    await conversation.end_input()


async def waits_in_vain(conversation):
    conversation.unanswered += 1


@pytest.mark.parametrize("between", [asks_something, cancels_what_it_left_open])
def test_a_conversation_without_open_requests_is_reused(between):
    assert run(acquired_twice(between))


@pytest.mark.parametrize("between", [leaves_a_request_open, ends_the_input, waits_in_vain])
def test_a_conversation_with_open_requests_is_not_reused(between):
    assert not run(acquired_twice(between))


def test_a_conversation_that_breaks_rules_is_reused_with_open_requests():
    async def asks_strangely(conversation):
        conversation.send({"jsonrpc": "2.0", "id": None, "method": "tools/list"})

    assert run(acquired_twice(asks_strangely, ProbeGroup(revision=MODERN, judged=False)))


def test_the_default_answers_are_restored_for_the_next_probe():
    async def scene():
        shared = SharedConversation(healthy(), ProbeGroup(revision=LEGACY, client_capabilities=ALL_CAPABILITIES))
        try:
            conversation = await shared.acquire(a_probe("first"))
            usual = dict(conversation.answers)
            conversation.answers["roots/list"] = {"roots": [{"uri": "file:///changed"}]}
            shared.release()
            return (await shared.acquire(a_probe("second"))).answers == usual
        finally:
            await shared.renew()

    assert run(scene())


def test_in_a_modern_revision_each_probe_declares_its_own_capabilities():
    async def scene():
        shared = SharedConversation(healthy(), ProbeGroup(revision=MODERN))
        try:
            first = dict((await shared.acquire(a_probe("first", client_capabilities=ALL_CAPABILITIES))).client_capabilities)
            shared.release()
            return first, dict((await shared.acquire(a_probe("second"))).client_capabilities)
        finally:
            await shared.renew()

    assert run(scene()) == (ALL_CAPABILITIES, {})


# What is found in one that others had before


def outcome_of(*probes):
    target = healthy()
    work = check_server(target, revisions=[LEGACY], wanted={"FR-13"}, permissions=PERMISSIONS, probes=probes)
    found = run(work)
    return [(each.probe, each.outcome) for each in found.verdicts if each.probe != "the conversation"], len(target.conversations)


async def passes(case):
    await case.conversation.request("ping")
    case.expect("FR-13", condition=True, why="")


async def fails_where_others_were_before(case):
    asked = sum(b'"ping"' in line for line in case.conversation.sent_lines)
    await case.conversation.request("ping")
    case.expect("FR-13", asked <= 1, "others have been here before")


async def fails(case):
    case.expect("FR-13", condition=False, why="it is broken")


def test_a_failure_caused_by_an_earlier_probe_does_not_count():
    found, conversations = outcome_of(a_probe("first", body=passes), a_probe("second", body=fails_where_others_were_before))
    assert found == [("first", "passed"), ("second", "passed")]
    assert conversations == 2


def test_a_failure_in_a_fresh_conversation_counts_once():
    found, conversations = outcome_of(a_probe("first", body=passes), a_probe("second", body=fails))
    assert found == [("first", "passed"), ("second", "failed")]
    assert conversations == 2


def test_a_failure_of_the_first_probe_is_not_retried():
    found, conversations = outcome_of(a_probe("first", body=fails))
    assert found == [("first", "failed")]
    assert conversations == 1


def test_a_probe_that_opens_its_own_conversations_gets_none():
    async def opens_one(case):
        conversation = await case.open_conversation()
        case.expect("FR-13", (await conversation.request("ping")).is_result, "")

    found, conversations = outcome_of(a_probe("first", body=opens_one, opens_own=True))
    assert found == [("first", "passed")]
    assert conversations == 2, "the one that finds out what the server speaks, and its own"


def test_probes_that_share_a_conversation_cost_one_start():
    found, conversations = outcome_of(*(a_probe(f"p{number}", body=passes) for number in range(5)))
    assert len(found) == 5
    assert conversations == 1
