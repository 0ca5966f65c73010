"""Two eras side by side, from the side of a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twopipes._protocol.revisions import LEGACY, META_VERSION, MODERN
from twopipes._tools.check.fake_server import ClientMessage, FakeServer, scenario
from twopipes._tools.check.healthy_responses import SILENCE, Fault, RawResult
from twopipes._tools.check.verdict import Skip

_BOTH = (LEGACY[-1], MODERN[-1])
# With what servers of the old era refuse a method that they do not know, or that comes before the handshake; and two codes that
# nobody has a meaning for. -32601 is what the healthy server of the old era answers.
_CODES = (-32600, -32602, -32603, -32000, -32002, 0, 1)
_PROBE = "server/discover"
# Of the time for a whole run: who has not gone on by then still waits, or never will, and the check cannot tell which.
_ENOUGH = 0.8


# What is known of the client


def _speaks(fake: FakeServer, era: tuple[str, ...]) -> str | None:
    """The newest revision of an era that the client speaks, as far as it was tried."""
    return max((each for each in fake.baselines if each in era), default=None)


def _is_old(fake: FakeServer) -> str:
    """Poses as a server of the old era, in a revision that the client speaks.

    Raises:
        Skip: The client speaks none.
    """
    # Where nothing is known of the client (a host that a person drives), it may still show what it does.
    revision = _speaks(fake, LEGACY) or LEGACY[-1]
    if fake.baselines and _speaks(fake, LEGACY) is None:
        raise Skip("it is about clients of both eras, and this one speaks no revision with a handshake")
    fake.healthy.speaks = (revision,)
    return revision


async def _probe_of(fake: FakeServer) -> ClientMessage:
    """The probe of a client of both eras.

    Raises:
        Skip: It does not probe.
    """
    first = await fake.wait_for(lambda message: message.is_request)
    if first.method != _PROBE:
        raise Skip(f"the client begins with {first.method} and does not probe")
    return first


async def _expect_a_handshake(fake: FakeServer, probe: ClientMessage, why: str, *, rules: tuple[str, ...]) -> ClientMessage | None:
    """Wants initialize to follow, for as long as a client may take."""
    fix = "Unless the probe proves the new era, go on with initialize: whatever came back, and if nothing did, after a few seconds."
    found = await _handshake(fake)
    if found is None and probe.connection.input_ended_at is None:
        fake.end_server()
        raise Skip(f"{why}, and the client was still waiting after {_ENOUGH * fake.timeouts.client:g} s")
    for rule in rules:
        fake.expect(
            rule, found is not None, f"{why}, and the client, which speaks both eras, sent no initialize", fix=fix, about=probe
        )
    return found


async def _handshake(fake: FakeServer) -> ClientMessage | None:
    """The first initialize; ``None`` if there was none until the client left, or for as long as we wait.

    Raises:
        Skip: There was none, and the check does not know whether the client has such a thing.
    """
    found: ClientMessage | None = await fake.until(
        lambda: next(iter(fake.requests("initialize")), None), _ENOUGH * fake.timeouts.client
    )
    if found is None and not fake.baselines:
        raise Skip("the client sent no initialize, and it is not known whether it speaks a revision that has it")
    return found


# A server of the new era


@scenario("DE-01", "DE-02", speaks=_BOTH, eras=True)
async def speaks_both_eras(fake: FakeServer) -> None:
    """The server can do both: a client of both eras discovers it, and needs no handshake."""
    first = await fake.wait_for(lambda message: message.is_request)
    await fake.client_exited()
    if fake.baselines and _speaks(fake, LEGACY) is None:
        raise Skip("it is about clients of both eras, and this one speaks no revision with a handshake")
    if not fake.baselines and first.method != _PROBE:
        raise Skip("it is about clients of both eras, and it is not known whether this one speaks both")
    fake.expect(
        "DE-01",
        first.method == _PROBE,
        f"the first request of a client that speaks both eras is {first.method}",
        fix="Begin with server/discover, in the newest version that you speak.",
        about=first,
    )
    discovered = next(iter(fake.requests(_PROBE)), None)
    if discovered is None:
        fake.skip("DE-02", "the client does not probe")
        return
    handshake = next((message for message in fake.requests("initialize") if message.number > discovered.number), None)
    fake.expect(
        "DE-02",
        handshake is None,
        "the client discovered the server, and sent initialize all the same",
        fix="Take a version of supportedVersions and send requests that stand alone.",
        about=handshake,
    )


@scenario("DE-03", speaks=_BOTH, eras=True, judged=False)
async def refuses_the_version_of_the_probe(fake: FakeServer) -> None:
    """The probe gets -32022 with a list of versions: that is a server of the new era, and no reason for a handshake."""

    def refuse(message: ClientMessage) -> Any:
        if probes:
            return None
        probes.append(message)
        return Fault(-32022, "not that version", {"supported": list(MODERN), "requested": message.meta.get(META_VERSION)})

    probes: list[ClientMessage] = []
    fake.on[_PROBE] = refuse
    probe = await _probe_of(fake)
    await fake.client_exited()
    handshake = next((message for message in fake.requests("initialize") if message.number > probe.number), None)
    again = any(message.number > probe.number and message.is_modern for message in fake.requests())
    if handshake is None and not again:
        raise Skip("the client gave up, as it may where the server lists no version but the one that it refused")
    fake.expect(
        "DE-03",
        handshake is None,
        f"the server refused the version with -32022 and listed {', '.join(MODERN)}; the client went on with initialize",
        fix="Send server/discover once more, with a version of data.supported.",
        about=handshake,
    )


@scenario("DE-07")
async def fails_in_the_middle(fake: FakeServer) -> None:
    """Calls get -32601 on a connection that was good until then: that does not make it one of the old era."""
    fake.on["tools/call"] = lambda _said: Fault(-32601, "there is no such method today")
    failed = await fake.wait_for("tools/call")
    await fake.client_exited()
    demoted = next((message for message in fake.requests("initialize") if message.number > failed.number), None)
    fake.expect(
        "DE-07",
        demoted is None,
        "a call failed with -32601 on the stateless wire, and the client sent initialize",
        fix="Keep what the probe has found out for as long as the process lives.",
        about=demoted,
    )


# A server of the old era


@scenario("DE-04", eras=True, judged=False)
async def answers_the_probe_with_nothing_in_it(fake: FakeServer) -> None:
    """The probe gets a result without anything in it, as from a server that answers whatever it is asked."""
    _is_old(fake)
    fake.on[_PROBE] = lambda _said: RawResult({})
    await _expect_a_handshake(fake, await _probe_of(fake), "server/discover got an empty result", rules=("DE-04",))


@scenario("DE-04", eras=True, judged=False)
async def never_answers_the_probe(fake: FakeServer) -> None:
    """The probe gets no answer, as from a server that drops what it does not know."""
    _is_old(fake)
    fake.on[_PROBE] = lambda _said: SILENCE
    await _expect_a_handshake(fake, await _probe_of(fake), "server/discover got no answer", rules=("DE-04",))


def _refusing(code: int) -> Callable[[FakeServer], Any]:
    async def refuses_the_probe(fake: FakeServer) -> None:
        _is_old(fake)
        fake.on[_PROBE] = lambda _said: Fault(code, "that is not known here")
        why = f"server/discover was refused with {code}"
        await _expect_a_handshake(fake, await _probe_of(fake), why, rules=("DE-04", "DE-05"))

    refuses_the_probe.__doc__ = f"The probe is refused with {code}: whatever the code, initialize follows."
    return refuses_the_probe


for _code in _CODES:
    scenario("DE-04", "DE-05", name=f"refuses-the-probe-by-{_code}".replace("--", "-minus-"), eras=True, judged=False)(
        _refusing(_code)
    )


@scenario("DE-06", eras=True, judged=False)
async def dies_of_the_probe(fake: FakeServer) -> None:
    """The server ends as soon as it is probed, as some do with what comes before initialize."""
    _is_old(fake)

    def die(_said: ClientMessage) -> Any:
        fake.end_server(1)
        return SILENCE

    fake.on[_PROBE] = die
    probe = await _probe_of(fake)
    handshake = await _handshake(fake)
    if handshake is None and not fake.is_over:
        raise Skip(f"the client had not launched it again after {_ENOUGH * fake.timeouts.client:g} s")
    fake.expect(
        "DE-06",
        handshake is not None,
        f"the server ended when it was probed; the client launched it {len(fake.connections)} times in all, and sent no initialize",
        fix="Launch the server again and begin with initialize.",
        about=probe,
    )


@scenario("DE-07", name="is-probed-once", eras=True, judged=False)
async def is_probed_once(fake: FakeServer) -> None:
    """A server of the old era refuses the probe: in the session that follows, the client does not probe again."""
    _is_old(fake)
    await _probe_of(fake)
    await fake.client_exited()
    for connection in fake.connections:
        opened = next((message for message in connection.received_lines if message.method == "notifications/initialized"), None)
        again = next(
            (
                message
                for message in connection.received_lines
                if opened and message.number > opened.number and message.method == _PROBE
            ),
            None,
        )
        if opened is not None:
            fake.expect(
                "DE-07",
                again is None,
                "the client sent server/discover in a session, to a server that had refused it before",
                fix="Keep what the probe has found out for as long as the process lives.",
                about=again,
            )


@scenario("DE-08", eras=True, judged=False)
async def has_nothing_for_the_new_era(fake: FakeServer) -> None:
    """A client of the new era alone meets a server of the old one: it probes, and calls nothing."""
    if _speaks(fake, LEGACY) is not None:
        raise Skip("it is about clients of the new era alone, and this one speaks both")
    fake.healthy.speaks = (LEGACY[-1],)
    first = await fake.wait_for(lambda message: message.is_request)
    await fake.client_exited()
    if fake.requests("initialize"):
        raise Skip("it is about clients of the new era alone, and this one has a handshake")
    fix = "Begin with server/discover; if the server does not know that, tell the user that it is too old, and for what."
    why = f"the client does not probe: it begins with {first.method}"
    fake.expect("DE-08", first.method == _PROBE, why, fix=fix, about=first)
    called = next(iter(fake.requests("tools/call")), None)
    fake.expect("DE-08", called is None, "the client called a tool of a server that is not of its era", fix=fix, about=called)


@scenario("DE-15", eras=True, judged=False)
async def lists_versions_of_the_old_era_alone(fake: FakeServer) -> None:
    """server/discover works, and lists versions with a handshake and no others."""
    # A client of the new era alone is asked too: it must not take one of these for a version of requests.
    legacy = _speaks(fake, LEGACY) or LEGACY[-1]
    fake.healthy.speaks = (legacy,)
    members = {"resultType": "complete", "supportedVersions": [legacy], "ttlMs": 0, "cacheScope": "private"}
    fake.on[_PROBE] = lambda _said: RawResult({**members, "capabilities": fake.healthy.capabilities})
    probe = await _probe_of(fake)
    await fake.client_exited()
    wrong = next((message for message in fake.requests() if message.meta.get(META_VERSION) in LEGACY), None)
    fake.expect(
        "DE-15",
        wrong is None,
        f"the client sent a request that stands alone and names {legacy}, which has no such requests",
        fix="Of a server's list, take versions from 2026-07-28 on for requests; the others are for initialize.",
        about=wrong,
    )
    if _speaks(fake, LEGACY) is not None:
        fake.expect(
            "DE-15",
            fake.requests("initialize"),
            f"the server lists {legacy} alone, which the client speaks, and the client sent no initialize",
            fix="Where all versions of the list are of the old era, go on with initialize.",
            about=probe,
        )


@scenario("DE-17", eras=True, judged=False)
async def answers_the_probe_when_it_is_too_late(fake: FakeServer) -> None:
    """The answer to the probe comes when the session is open: nothing happens, and nothing else has its id."""
    revision = _is_old(fake)
    fake.on[_PROBE] = lambda _said: SILENCE
    late: list[ClientMessage] = []

    def answer_the_probe(message: ClientMessage) -> None:
        probes = [each for each in message.connection.received_lines if each.method == _PROBE]
        if probes and not late:
            late.append(message)
            fake.reply(probes[0], Fault(-32601, "there is no method 'server/discover' here"))

    fake.on["tools/list"] = answer_the_probe
    probe = await _probe_of(fake)
    await fake.until(lambda: late or None, fake.timeouts.client)
    await fake.client_exited()
    if not late:
        raise Skip("the client did not get as far as a list of tools after its probe got no answer")
    fix = "Drop answers to requests that you have given up, and never use their ids again."
    differs = fake.differs_from(fake.baselines.get(revision))
    fake.expect("DE-17", not differs, f"when the probe was answered late, {differs}", fix=fix, about=probe)
    reused = next(
        (
            message
            for message in probe.connection.received_lines
            if message.is_request and message is not probe and message.id == probe.id
        ),
        None,
    )
    fake.expect("DE-17", reused is None, "another request has the id of the probe", fix=fix, about=reused)
