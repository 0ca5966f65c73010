"""How clients detect the era of a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twopipes._protocol.revisions import LEGACY, META_VERSION, MODERN
from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.healthy_responses import SILENCE, Fault, RawResult
from twopipes._tools.check.messages import ClientMessage
from twopipes._tools.check.scenario import scenario
from twopipes._tools.check.verdict import Skip

_BOTH = (LEGACY[-1], MODERN[-1])
_PROBE = "server/discover"
# What the probe may get from a legacy server. Legacy servers use the codes for methods that are unknown or come before the
# handshake, and two codes have no meaning at all. The healthy legacy server sends -32601.
_CODES = (-32600, -32602, -32603, -32000, -32002, 0, 1)
# The part of the time for a whole run after which a client that has not continued may still wait, or never continue.
_ENOUGH = 0.8


def _legacy_of(fake: FakeServer) -> str | None:
    """Return the newest legacy revision that the client is known to speak."""
    return max((each for each in fake.baselines if each in LEGACY), default=None)


def _need_both_eras(fake: FakeServer) -> None:
    # If nothing is known about the client (a host that a person operates), it is tried.
    if fake.baselines and _legacy_of(fake) is None:
        raise Skip("only for clients of both eras; this one speaks no revision with a handshake")


def _become_legacy(fake: FakeServer) -> str:
    """Make the fake server a legacy one, in a revision that the client speaks."""
    _need_both_eras(fake)
    revision = _legacy_of(fake) or LEGACY[-1]
    fake.healthy.speaks = (revision,)
    return revision


async def _probe_of(fake: FakeServer) -> ClientMessage:
    first = await fake.wait_for(lambda message: message.is_request)
    if first.method != _PROBE:
        raise Skip(f"the client begins with {first.method} and does not probe")
    return first


async def _handshake(fake: FakeServer) -> ClientMessage | None:
    """Return the first initialize; ``None`` if there was none until the client exited, or in time."""
    found: ClientMessage | None = await fake.until(lambda: fake.first("initialize"), _ENOUGH * fake.timeouts.client)
    if found is None and not fake.baselines:
        raise Skip("the client sent no initialize, and it is not known whether it speaks a revision that has it")
    return found


# A modern server


@scenario("DE-01", "DE-02", speaks=_BOTH, eras=True)
async def speaks_both_eras(fake: FakeServer) -> None:
    """Speaks both eras."""
    first = await fake.exited_after(lambda message: message.is_request)
    _need_both_eras(fake)
    if not fake.baselines and first.method != _PROBE:
        raise Skip("only for clients of both eras, and it is not known whether this one is")
    why = f"the first request of a client that speaks both eras is {first.method}"
    fake.expect("DE-01", first.method == _PROBE, why, about=first)
    discovered = fake.first(_PROBE)
    if discovered is None:
        fake.skip("DE-02", "the client does not probe")
    else:
        fake.forbid("DE-02", fake.first("initialize", after=discovered), "after server/discover, the client sent initialize")


@scenario("DE-03", speaks=_BOTH, eras=True, judged=False)
async def rejects_the_version_of_the_probe(fake: FakeServer) -> None:
    """Rejects the probe with -32022 and a list of versions, as only modern servers do."""

    def reject(message: ClientMessage) -> Any:
        if fake.first(_PROBE) is not message:
            return None
        return Fault(-32022, "unsupported version", {"supported": list(MODERN), "requested": message.meta.get(META_VERSION)})

    fake.on[_PROBE] = reject
    probe = await _probe_of(fake)
    await fake.client_exited()
    handshake = fake.first("initialize", after=probe)
    again = any(message.number > probe.number and message.is_modern for message in fake.requests())
    if handshake is None and not again:
        raise Skip("the client gave up, as it may if the server lists only the version that it rejected")
    why = f"the server rejected the version with -32022 and listed {', '.join(MODERN)}; the client sent initialize"
    fake.forbid("DE-03", handshake, why)


@scenario("DE-07")
async def fails_a_call(fake: FakeServer) -> None:
    """Rejects calls with -32601, after the era of the server was detected."""
    failed = await fake.exited_after("tools/call", lambda _message: Fault(-32601, "not available today"))
    handshake = fake.first("initialize", after=failed)
    fake.forbid("DE-07", handshake, "a call to a modern server failed with -32601, and the client sent initialize")


# A legacy server


def _answering(response: Any, what: str, rules: tuple[str, ...]) -> Callable[[FakeServer], Any]:
    async def answers_the_probe(fake: FakeServer) -> None:
        _become_legacy(fake)
        fake.on[_PROBE] = lambda _message: response
        probe = await _probe_of(fake)
        found = await _handshake(fake)
        if found is None and probe.connection.input_ended_at is None:
            fake.end_server()
            raise Skip(f"{_PROBE} got {what}, and the client still waited after {_ENOUGH * fake.timeouts.client:g} s")
        for rule in rules:
            why = f"{_PROBE} got {what}, and the client, which speaks both eras, sent no initialize"
            fake.expect(rule, found is not None, why, about=probe)

    answers_the_probe.__doc__ = f"The probe gets {what}."
    return answers_the_probe


for _name, _response, _what, _rules in (
    ("answers-the-probe-with-an-empty-result", RawResult({}), "an empty result", ("DE-04",)),
    ("never-answers-the-probe", SILENCE, "no response", ("DE-04",)),
    *(
        (f"rejects-the-probe-with-{code}".replace("--", "-minus-"), Fault(code), f"the error {code}", ("DE-04", "DE-05"))
        for code in _CODES
    ),
):
    scenario(*_rules, name=_name, eras=True, judged=False)(_answering(_response, _what, _rules))


@scenario("DE-06", eras=True, judged=False)
async def exits_on_the_probe(fake: FakeServer) -> None:
    """Exits on the probe, as some servers do on anything that comes before initialize."""
    _become_legacy(fake)

    def exit_at_once(_message: ClientMessage) -> Any:
        fake.end_server(1)
        return SILENCE

    fake.on[_PROBE] = exit_at_once
    probe = await _probe_of(fake)
    handshake = await _handshake(fake)
    if handshake is None and not fake.is_over:
        raise Skip(f"the client had not started the server again after {_ENOUGH * fake.timeouts.client:g} s")
    why = f"the server exited on the probe; the client started it {len(fake.connections)} times in all, and sent no initialize"
    fake.expect("DE-06", handshake is not None, why, about=probe)


@scenario("DE-07", eras=True, judged=False)
async def is_probed_once(fake: FakeServer) -> None:
    """Rejects the probe, and looks for another one in the session that follows."""
    _become_legacy(fake)
    await _probe_of(fake)
    await fake.client_exited()
    for connection in fake.connections:
        methods = [message.method for message in connection.received_lines]
        if "notifications/initialized" in methods:
            later = connection.received_lines[methods.index("notifications/initialized") :]
            again = [message for message in later if message.method == _PROBE]
            fake.forbid("DE-07", again, f"the client sent {_PROBE} in a session, although the server had rejected it")


@scenario("DE-08", eras=True, judged=False)
async def is_legacy_for_a_modern_client(fake: FakeServer) -> None:
    """Is a legacy server, for a client that speaks only modern revisions."""
    if _legacy_of(fake) is not None:
        raise Skip("only for clients that speak only modern revisions; this one speaks both eras")
    fake.healthy.speaks = (LEGACY[-1],)
    first = await fake.exited_after(lambda message: message.is_request)
    if fake.requests("initialize"):
        raise Skip("only for clients that speak only modern revisions; this one has a handshake")
    fake.expect("DE-08", first.method == _PROBE, f"the client does not probe: it begins with {first.method}", about=first)
    fake.forbid("DE-08", fake.first("tools/call"), "the client called a tool of a server of the other era")


@scenario("DE-15", eras=True, judged=False)
async def lists_only_legacy_versions(fake: FakeServer) -> None:
    """Answers server/discover with a list of legacy versions only."""
    # Modern-only clients are tried too: they must not use one of these versions for requests.
    legacy = _legacy_of(fake) or LEGACY[-1]
    fake.healthy.speaks = (legacy,)
    members = {"resultType": "complete", "supportedVersions": [legacy], "ttlMs": 0, "cacheScope": "private"}
    fake.on[_PROBE] = lambda _message: RawResult({**members, "capabilities": fake.healthy.capabilities})
    probe = await _probe_of(fake)
    await fake.client_exited()
    wrong = [message for message in fake.requests() if message.meta.get(META_VERSION) in LEGACY]
    fake.forbid("DE-15", wrong, f"the client sent a modern request with the legacy version {legacy}")
    if _legacy_of(fake) is not None:
        why = f"the server lists only {legacy}, which the client speaks, and the client sent no initialize"
        fake.expect("DE-15", fake.requests("initialize"), why, about=probe)


@scenario("DE-17", eras=True, judged=False)
async def answers_the_probe_too_late(fake: FakeServer) -> None:
    """Responds to the probe when the session is already open."""
    revision = _become_legacy(fake)
    fake.on[_PROBE] = lambda _message: SILENCE
    late: list[ClientMessage] = []

    def answer_the_probe(message: ClientMessage) -> None:
        probes = [each for each in message.connection.received_lines if each.method == _PROBE]
        if probes and not late:
            late.append(message)
            fake.reply(probes[0], Fault(-32601, "not available today"))

    fake.on["tools/list"] = answer_the_probe
    probe = await _probe_of(fake)
    await fake.until(lambda: late or None, fake.timeouts.client)
    await fake.client_exited()
    if not late:
        raise Skip("the client requested no list of tools after its probe got no response")
    differs = fake.differs_from(fake.baselines.get(revision))
    fake.expect("DE-17", not differs, f"when the response to the probe came late, {differs}", about=probe)
    others = [message for message in probe.connection.received_lines if message.is_request and message is not probe]
    reused = [message for message in others if message.id == probe.id]
    fake.forbid("DE-17", reused, "another request has the id of the probe")
