"""Progress, from the side of a server; and of one that wants to hear of it itself."""

from __future__ import annotations

import asyncio
from typing import Any

from twopipes._protocol.revisions import MODERN
from twopipes._tools.check.conversation import same_id
from twopipes._tools.check.declared_questions import question_for
from twopipes._tools.check.fake_server import ClientMessage, FakeServer, scenario
from twopipes._tools.check.questions import members
from twopipes._tools.check.verdict import Skip

_PROGRESS = "notifications/progress"
_TOKEN = 4711
# Seconds beside the grace, in which progress after an answer would come.
_LONGER = 0.2
_OVER = {"completed", "failed", "cancelled"}
_POLLS = 20


@scenario("PR-01")
async def tools_that_take_their_time(fake: FakeServer) -> None:
    """Nothing special: the tokens that the client gives are looked at."""
    await fake.client_exited()
    given = [(message, message.meta["progressToken"]) for message in fake.requests() if "progressToken" in message.meta]
    if not given:
        raise Skip("the client does not want to hear of progress")
    wrong = next(
        ((message, token) for message, token in given if isinstance(token, bool) or not isinstance(token, str | int)), None
    )
    fake.expect(
        "PR-01",
        wrong is None,
        f"the progressToken of a request is {None if wrong is None else wrong[1]!r}",
        fix="Take a string or an integer; the id of the request will do.",
        about=None if wrong is None else wrong[0],
    )


@scenario("PR-05", revisions=MODERN)
async def hears_no_progress_of_the_client(fake: FakeServer) -> None:
    """Nothing special: on the stateless wire the client has nothing to tell the progress of."""
    await fake.wait_for(lambda message: message.is_request)
    await fake.client_exited()
    told = next(iter(fake.notifications(_PROGRESS)), None)
    fake.expect("PR-05", told is None, "the client sent notifications/progress", fix="Leave that to the server.", about=told)


@scenario("PR-02", "PR-03", "PR-04", "PR-08")
async def wants_to_hear_of_progress(fake: FakeServer) -> None:
    """During a call the server asks something, first without a progress token and then with a number for one."""
    if fake.is_modern:
        raise Skip("on the stateless wire the client does not tell of progress")
    done = asyncio.Event()

    async def wait(_said: ClientMessage) -> None:
        await done.wait()

    fake.on["tools/call"] = wait
    try:
        call = await fake.wait_for("tools/call")
        question = question_for(call.connection.client_capabilities, fake.revision)
        if question is None:
            raise Skip("the client declares nothing that it could be asked")
        method, params = question
        plain = await fake.ask(method, params)
        asked = await fake.ask(method, {**params, "_meta": {"progressToken": _TOKEN}})
        await fake.until(lambda: None, fake.timeouts.grace + _LONGER)
    finally:
        done.set()
    if plain is None or asked is None:
        raise Skip(f"the client did not answer {method}")
    _judge_progress(fake, plain, asked)
    await fake.client_exited()


def _judge_progress(fake: FakeServer, plain: ClientMessage, asked: ClientMessage) -> None:
    told = fake.notifications(_PROGRESS)
    early = next((message for message in told if message.number < plain.number), None)
    fake.expect("PR-02", early is None, "the client told of progress, and no request gave a token", about=early)
    if not told:
        for rule in ("PR-03", "PR-04", "PR-08"):
            fake.skip(rule, "the client told of no progress, which it need not")
        return
    changed = next((message for message in told if not same_id(message.params.get("progressToken"), _TOKEN)), None)
    token = None if changed is None else changed.params.get("progressToken")
    why = f"progress of a request with the token {_TOKEN} came under {token!r}"
    fake.expect("PR-08", changed is None, why, fix="Give the token back as it came, with its JSON type.", about=changed)
    fake.expect("PR-02", changed is None, why, about=changed)
    late = next((message for message in told if message.number > asked.number), None)
    fake.expect("PR-04", late is None, "the client told of progress after its answer", about=late)
    last: Any = None
    for message in told:
        value = message.params.get("progress")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        rises = is_number and (last is None or value > last)
        fake.expect("PR-03", rises, f"the progress of the client goes from {last!r} to {value!r}; it must rise", about=message)
        last = value if is_number else last


@scenario("PR-06")
async def makes_a_task_of_its_question(fake: FakeServer) -> None:
    """Where the client declares tasks, a question is made one, with a progress token; its progress ends with the task."""
    done = asyncio.Event()

    async def wait(_said: ClientMessage) -> None:
        await done.wait()

    fake.on["tools/call"] = wait
    try:
        call = await fake.wait_for("tools/call")
        client_capabilities = call.connection.client_capabilities
        requests = members(members(client_capabilities.get("tasks")).get("requests"))
        wanted: dict[str, Any] = {
            key: client_capabilities[key] for key in ("sampling", "elicitation") if key in client_capabilities and requests.get(key)
        }
        question = question_for(wanted, fake.revision)
        if question is None:
            raise Skip("the client declares no tasks")
        method, params = question
        created = await fake.ask(method, {**params, "task": {"ttl": 60000}, "_meta": {"progressToken": _TOKEN}})
        task_id = None if created is None else members(members(created.members.get("result")).get("task")).get("taskId")
        if task_id is None:
            raise Skip(f"the client made no task of {method}")
        over = await _until_over(fake, task_id)
        await fake.until(lambda: None, fake.timeouts.grace + _LONGER)
    finally:
        done.set()
    told = fake.notifications(_PROGRESS)
    if not told:
        raise Skip("the client told of no progress of its task, which it need not")
    other = next((message for message in told if not same_id(message.params.get("progressToken"), _TOKEN)), None)
    fake.expect("PR-06", other is None, f"the progress of a task came under another token than {_TOKEN}", about=other)
    late = next((message for message in told if over is not None and message.number > over.number), None)
    fake.expect("PR-06", late is None, "progress of a task was told after the task was over", about=late)
    await fake.client_exited()


async def _until_over(fake: FakeServer, task_id: Any) -> ClientMessage | None:
    for _ in range(_POLLS):
        message = await fake.ask("tasks/get", {"taskId": task_id})
        if message is None:
            return None
        if members(message.members.get("result")).get("status") in _OVER:
            return message
        await fake.until(lambda: None, fake.timeouts.grace)
    return None
