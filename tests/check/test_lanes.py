"""Which probes share a conversation, when one is handed on, and what is made of what was found in one that others had before."""

from itertools import pairwise

import pytest

from check.checking import run
from check.healthy import PERMISSIONS, new_server, served
from check.pacing import waiting
from twopipes._tools.check.conversation import Waits
from twopipes._tools.check.probe import Probe, all_probes, probe
from twopipes._tools.check.server_run import check_server
from twopipes._tools.check.server_source import ChannelSubject
from twopipes._tools.check.sharing import Lane, SharedTalk, lanes_of
from twopipes.errors import LocalProtocolError

LEGACY, MODERN = "2025-11-25", "2026-07-28"
WAITS = Waits(start=20, answer=5, grace=0.02, exit=2, step=2)
ABLE = {"roots": {}}


def a_probe(name, section="FR", body=None, rules=("FR-13",), **more):
    return Probe(name=name, section=section, rules=rules, body=body, **more)


def names(lanes):
    return sorted(tuple(probe.name for probe in lane.probes) for lane in lanes)


def healthy():
    return ChannelSubject(served(new_server()), waits=waiting(WAITS))


# Who shares with whom


def test_what_leaves_nothing_behind_shares_one():
    lanes = lanes_of([(a_probe("a"), LEGACY), (a_probe("b", "JR"), LEGACY), (a_probe("c"), MODERN)])
    assert names(lanes) == [("a", "b"), ("c",)]
    assert all(lane.is_common for lane in lanes)


def test_what_wants_a_server_for_itself_gets_one():
    lanes = lanes_of([(a_probe("a"), LEGACY), (a_probe("b", fresh=True), LEGACY), (a_probe("c", fresh=True), LEGACY)])
    assert names(lanes) == [("a",), ("b",), ("c",)]
    assert sum(lane.is_common for lane in lanes) == 1


def test_what_leaves_something_behind_shares_with_its_section_alone():
    tries = [a_probe("a"), a_probe("b", apart=True), a_probe("c", apart=True), a_probe("d", "JR", apart=True)]
    assert names(lanes_of((each, LEGACY) for each in tries)) == [("a",), ("b", "c"), ("d",)]


def test_what_breaks_rules_is_not_judged_with_what_keeps_them():
    lanes = lanes_of([(a_probe("a"), LEGACY), (a_probe("b", judged=False), LEGACY)])
    assert {(lane.probes[0].name, lane.judged) for lane in lanes} == {("a", True), ("b", False)}


def test_a_handshake_declares_one_thing_and_a_stateless_request_its_own():
    tries = [a_probe("a"), a_probe("b", can=ABLE), a_probe("c", can=dict(ABLE))]
    assert names(lanes_of((each, LEGACY) for each in tries)) == [("a",), ("b", "c")]
    assert names(lanes_of((each, MODERN) for each in tries)) == [("a", "b", "c")]


def test_many_are_divided_section_by_section_and_the_same_way_each_time():
    tries = [(a_probe(f"{section}-{number}", section), LEGACY) for section in ("FR", "JR", "TL", "PM") for number in range(9)]
    lanes = lanes_of(tries)
    assert len(lanes) == 2
    assert names(lanes) == names(lanes_of(tries))
    for lane in lanes:
        sections = [each.section for each in lane.probes]
        assert sum(one != other for one, other in pairwise(sections)) == len(set(sections)) - 1, "a section was torn apart"


def test_what_takes_longest_begins_first():
    tries = [(a_probe("alone", fresh=True), LEGACY), *((a_probe(f"p{number}"), LEGACY) for number in range(5))]
    assert [len(lane.probes) for lane in lanes_of(tries)] == [5, 1]


@pytest.mark.parametrize("both", [{"fresh": True, "apart": True}, {"own": True, "fresh": True}, {"last": True, "apart": True}])
def test_a_probe_says_once_whom_it_shares_with(both):
    with pytest.raises(LocalProtocolError, match="apart"):
        probe("FR-13", **both)


def test_starts_are_few():
    """A server may take a second to start: all of it has to fit into a minute, on two cores."""
    tries = [(each, revision) for each in all_probes() for revision in (LEGACY, MODERN)]
    assert len([lane for lane in lanes_of(tries) if not (lane.probes[0].fresh or lane.probes[0].own)]) <= 30


# When one is handed on


async def lent_twice(between, lane=None):
    """Whether a second probe gets the conversation of the first, after what that did with it."""
    shared = SharedTalk(healthy(), lane or Lane(revision=MODERN))
    try:
        talk = await shared.lend(a_probe("first"))
        assert not shared.is_second_hand
        await between(talk)
        shared.take_back()
        again = await shared.lend(a_probe("second"))
        assert shared.is_second_hand == (again is talk)
        assert talk.is_usable == (again is talk)
        return again is talk
    finally:
        await shared.renew()


async def asks_something(talk):
    await talk.request("tools/list")


async def leaves_a_request_open(talk):
    talk.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})


async def cancels_what_it_left_open(talk):
    talk.notify("notifications/cancelled", {"requestId": talk.start("tools/list")})


async def ends_the_input(talk):
    await talk.end_input()


async def waits_in_vain(talk):
    talk.unanswered += 1


@pytest.mark.parametrize("between", [asks_something, cancels_what_it_left_open])
def test_a_conversation_in_which_all_is_answered_is_handed_on(between):
    assert run(lent_twice(between))


@pytest.mark.parametrize("between", [leaves_a_request_open, ends_the_input, waits_in_vain])
def test_one_in_which_something_is_left_is_not(between):
    assert not run(lent_twice(between))


def test_where_rules_are_broken_nobody_expects_an_answer_to_everything():
    async def asks_strangely(talk):
        talk.send({"jsonrpc": "2.0", "id": None, "method": "tools/list"})

    assert run(lent_twice(asks_strangely, Lane(revision=MODERN, judged=False)))


def test_the_next_finds_the_client_as_willing_as_the_first():
    async def scene():
        shared = SharedTalk(healthy(), Lane(revision=LEGACY, can=ABLE))
        try:
            talk = await shared.lend(a_probe("first"))
            usual = dict(talk.answers)
            talk.answers["roots/list"] = {"roots": [{"uri": "file:///changed"}]}
            shared.take_back()
            return (await shared.lend(a_probe("second"))).answers == usual
        finally:
            await shared.renew()

    assert run(scene())


def test_on_the_stateless_wire_each_declares_its_own():
    async def scene():
        shared = SharedTalk(healthy(), Lane(revision=MODERN))
        try:
            first = dict((await shared.lend(a_probe("first", can=ABLE))).can)
            shared.take_back()
            return first, dict((await shared.lend(a_probe("second"))).can)
        finally:
            await shared.renew()

    assert run(scene()) == (ABLE, {})


# What is found in one that others had before


def outcome_of(*probes):
    subject = healthy()
    work = check_server(subject, revisions=[LEGACY], wanted={"FR-13"}, permissions=PERMISSIONS, probes=probes)
    found = run(work)
    return [(each.probe, each.outcome) for each in found.verdicts if each.probe != "the conversation"], len(subject.talks)


async def passes(case):
    await case.talk.request("ping")
    case.expect("FR-13", condition=True, why="")


async def fails_where_others_were_before(case):
    asked = sum(b'"ping"' in line for line in case.talk.sent_lines)
    await case.talk.request("ping")
    case.expect("FR-13", asked <= 1, "others have been here before")


async def fails(case):
    case.expect("FR-13", condition=False, why="it is broken")


def test_nobody_is_accused_of_what_another_probe_left_behind():
    found, talks = outcome_of(a_probe("first", body=passes), a_probe("second", body=fails_where_others_were_before))
    assert found == [("first", "passed"), ("second", "passed")]
    assert talks == 2


def test_what_is_found_in_a_fresh_one_too_counts_and_counts_once():
    found, talks = outcome_of(a_probe("first", body=passes), a_probe("second", body=fails))
    assert found == [("first", "passed"), ("second", "failed")]
    assert talks == 2


def test_what_the_first_one_finds_is_not_looked_at_twice():
    found, talks = outcome_of(a_probe("first", body=fails))
    assert found == [("first", "failed")]
    assert talks == 1


def test_what_opens_its_own_is_given_none():
    async def opens_one(case):
        talk = await case.fresh_talk()
        case.expect("FR-13", (await talk.request("ping")).is_result, "")

    found, talks = outcome_of(a_probe("first", body=opens_one, own=True))
    assert found == [("first", "passed")]
    assert talks == 2, "the one that finds out what the server speaks, and its own"


def test_what_went_on_in_a_conversation_from_the_beginning_costs_one_start():
    found, talks = outcome_of(*(a_probe(f"p{number}", body=passes) for number in range(5)))
    assert len(found) == 5
    assert talks == 1
