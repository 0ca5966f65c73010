"""Progress of clients, and tokens that they send."""

from __future__ import annotations

from typing import Any

from twopipes._protocol.revisions import MODERN
from twopipes._tools.check.asking_tools import open_call, question_for
from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.messages import ClientMessage, members, same_id
from twopipes._tools.check.progress.judging import OVER, is_token, judge_increase, judge_task
from twopipes._tools.check.scenario import scenario
from twopipes._tools.check.verdict import Skip

_PROGRESS = "notifications/progress"
_TOKEN = 4711
# Seconds in addition to the grace period, in which late progress would arrive.
_LONGER = 0.2
_POLLS = 20


@scenario("PR-01")
async def reads_progress_tokens(fake: FakeServer) -> None:
    """A healthy server: the tokens of the client are judged."""
    await fake.client_exited()
    given = [message for message in fake.requests() if "progressToken" in message.meta]
    if not given:
        raise Skip("the client does not ask for progress")
    invalid = [message for message in given if not is_token(message.meta["progressToken"])]
    fake.forbid("PR-01", invalid, lambda message: f"the progressToken of a request is {message.meta['progressToken']!r}")


@scenario("PR-05", revisions=MODERN)
async def expects_no_progress(fake: FakeServer) -> None:
    """A healthy server: in modern revisions the client has no progress to report."""
    await fake.exited_after(lambda message: message.is_request)
    fake.forbid("PR-05", fake.notifications(_PROGRESS), "the client sent notifications/progress")


@scenario("PR-02", "PR-03", "PR-04", "PR-08")
async def asks_for_progress(fake: FakeServer) -> None:
    """During a call the server asks something, first without a progress token and then with a number as token."""
    if fake.is_modern:
        raise Skip("in modern revisions a client reports no progress")
    async with open_call(fake) as call:
        question = question_for(call.connection.client_capabilities, fake.revision)
        if question is None:
            raise Skip("the client does not declare anything that it could be asked")
        method, params = question
        plain = await fake.ask(method, params)
        asked = await fake.ask(method, {**params, "_meta": {"progressToken": _TOKEN}})
        await fake.until(lambda: None, fake.timeouts.grace + _LONGER)
    if plain is None or asked is None:
        raise Skip(f"the client did not answer {method}")
    _judge_progress(fake, plain, asked)
    await fake.client_exited()


def _judge_progress(fake: FakeServer, plain: ClientMessage, asked: ClientMessage) -> None:
    notes = fake.notifications(_PROGRESS)
    early = [message for message in notes if message.number < plain.number]
    fake.forbid("PR-02", early, "the client reported progress, and no request has a token")
    if not notes:
        raise Skip("the client reported no progress, which is allowed")
    changed = [message for message in notes if not same_id(message.params.get("progressToken"), _TOKEN)]
    tokens = ", ".join(repr(message.params.get("progressToken")) for message in changed)
    for rule in ("PR-08", "PR-02"):
        fake.forbid(rule, changed, f"progress of a request with the token {_TOKEN} has the token {tokens}")
    late = [message for message in notes if message.number > asked.number]
    fake.forbid("PR-04", late, "the client reported progress after its response")
    judge_increase(fake, notes)


@scenario("PR-06")
async def asks_with_a_task(fake: FakeServer) -> None:
    """A question becomes a task of the client, with a progress token; its progress ends with the task."""
    async with open_call(fake) as call:
        client_capabilities = call.connection.client_capabilities
        requests = members(members(client_capabilities.get("tasks")).get("requests"))
        kinds = [key for key in ("sampling", "elicitation") if key in client_capabilities and requests.get(key)]
        question = question_for({key: client_capabilities[key] for key in kinds}, fake.revision)
        if question is None:
            raise Skip("the client does not declare tasks")
        method, params = question
        created = await fake.ask(method, {**params, "task": {"ttl": 60000}, "_meta": {"progressToken": _TOKEN}})
        task_id = members(created.result.get("task")).get("taskId") if created is not None else None
        if task_id is None:
            raise Skip(f"the client did not make a task of {method}")
        over = await _task_end(fake, task_id)
        await fake.until(lambda: None, fake.timeouts.grace + _LONGER)
    judge_task(fake, fake.notifications(_PROGRESS), token=_TOKEN, over=over)
    await fake.client_exited()


async def _task_end(fake: FakeServer, task_id: Any) -> ClientMessage | None:
    for _ in range(_POLLS):
        message = await fake.ask("tasks/get", {"taskId": task_id})
        if message is None or message.result.get("status") in OVER:
            return message
        await fake.until(lambda: None, fake.timeouts.grace)
    return None
