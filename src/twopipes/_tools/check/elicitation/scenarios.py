"""How clients handle forms, choices and URLs."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from twopipes._client.form_check import form_errors
from twopipes._codes import INVALID_PARAMS
from twopipes._protocol.revisions import CLIENT_CAPABILITIES
from twopipes._tools.check.asking_tools import AskingTool, Reply, Round, form
from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.messages import ClientMessage, members
from twopipes._tools.check.questions import ELICIT, declares, reply_faults
from twopipes._tools.check.round_trips.scenarios import judge_a_no
from twopipes._tools.check.scenario import scenario
from twopipes._trace.judges.values import shown

_NAME = {"name": {"type": "string", "title": "Name", "minLength": 1}}
_COLOURS = ["red", "green", "blue"]
_TITLED = [{"const": each, "title": each.title()} for each in _COLOURS]
# Every way to write a choice, and every kind of field, with a default.
_FIELDS: dict[str, Any] = {
    "name": {"type": "string", "default": "Nobody"},
    "age": {"type": "integer", "minimum": 0, "maximum": 150, "default": 42},
    "height": {"type": "number", "default": 1.75},
    "member": {"type": "boolean", "default": True},
    "colour": {"type": "string", "enum": _COLOURS, "default": "green"},
    "titled": {"type": "string", "oneOf": _TITLED, "default": "blue"},
    "named": {"type": "string", "enum": _COLOURS, "enumNames": ["Red", "Green", "Blue"], "default": "red"},
    "several": {"type": "array", "items": {"type": "string", "enum": _COLOURS}, "minItems": 1, "default": ["red"]},
    "several_titled": {"type": "array", "items": {"anyOf": _TITLED}, "maxItems": 2, "default": ["green", "blue"]},
}


@scenario("EL-06", "EL-07", "EL-16")
async def asks_with_forms(fake: FakeServer) -> None:
    """Asks the user for a name, with and without a mode in the question."""
    mode = {"mode": "form"} if CLIENT_CAPABILITIES["elicitation.form"].has(fake.revision) else {}
    usual = AskingTool(fake, "ask", Round(questions={"who": form("Who are you?", _NAME, required=["name"], **mode)}))
    plain = AskingTool(fake, "ask-without-a-mode", Round(questions={"who": form("And who are you?", _NAME, required=["name"])}))
    await fake.client_exited()
    usual.require()
    for reply in (asker.replies["who"] for asker in (usual, plain) if "who" in asker.replies):
        if isinstance(reply.result, dict):
            faults = list(reply_faults(reply.result))
            fake.expect("EL-06", not faults, "; ".join(faults), about=reply.about)
            if reply.result.get("action") == "accept":
                faults = form_errors(reply.params["requestedSchema"], members(reply.result.get("content")))
                why = f"the content of an accepted form does not match it: {'; '.join(faults)}"
                fake.expect("EL-16", not faults, why, about=reply.about)
    usual.answered("who")
    if "who" in plain.replies:
        without = plain.replies["who"]
        why = f"a form with a mode was answered, and the same form without a mode got {without.summary}"
        fake.expect("EL-07", isinstance(without.result, dict), why, about=without.about)


@scenario("EL-04", "EL-05")
async def asks_for_choices(fake: FakeServer) -> None:
    """Asks the user with a form of all kinds of fields and choices, each with a default."""
    simple = AskingTool(fake, "ask", Round(questions={"who": form("Who are you?", _NAME, required=["name"])}))
    rich = AskingTool(fake, "ask-for-choices", Round(questions={"what": form("What do you like?", _FIELDS)}))
    await fake.client_exited()
    plain = simple.answered("who")
    reply = rich.reply("what")
    if not isinstance(reply.result, dict):
        why = f"a plain form was answered, and one with choices and defaults got {reply.summary}"
        fake.expect("EL-04", False, why, about=reply.about)
        return
    if reply.result.get("action") != "accept":
        fake.give_up("the user did not accept the form")
    content = members(reply.result.get("content"))
    faults = form_errors(reply.params["requestedSchema"], content)
    fake.expect("EL-04", not faults, f"the answers do not match the choices: {'; '.join(faults)}", about=reply.about)
    kept = [name for name, field in _FIELDS.items() if name in content and content[name] == field["default"]]
    if not kept and content.keys() >= _FIELDS.keys():
        fake.give_up("every field was changed, so the check does not know whether the defaults were filled in")
    if content and content == members(plain.result.get("content")):
        # The callback fills in every form the same way, and shows nothing of what a user would see.
        fake.give_up("the form was filled in like another one, so the check does not know whether the defaults were used")
    fake.expect("EL-05", kept, "a form with a default in every field was accepted without any of the defaults", about=reply.about)


@scenario("EL-09", "EL-11", "EL-14", "MR-19")
async def asks_to_visit_a_url(fake: FakeServer) -> None:
    """Asks the user to visit a page on this machine, and counts the visits."""
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/visit"
    question: dict[str, Any] = {"mode": "url", "message": "Please visit a page.", "url": url}
    if not fake.is_modern:
        question["elicitationId"] = "fake-visit"
    asker = AskingTool(fake, "ask-to-visit", Round(questions={"visit": (ELICIT, question)}), undeclared=not fake.is_modern)
    visits: list[float] = []

    async def visit(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visits.append(fake.now())
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(visit, sock=listening):
        await fake.client_exited()
    reply = asker.reply("visit")
    client_capabilities = asker.calls[0].connection.client_capabilities
    if not declares(client_capabilities, ELICIT, question):
        _judge_undeclared_mode(fake, client_capabilities, reply)
        return
    fake.skip("EL-09", "the client declares the mode url")
    if fake.is_modern and reply.about is not None:
        judge_a_no(fake, reply.result, about=reply.about)
    if members(reply.result).get("action") == "accept":
        content = reply.result.get("content")
        fake.expect("EL-11", not content, f"the consent to visit a URL has content: {shown(content)}", about=reply.about)
        if visits:
            fake.give_up("the user agreed; whether the page was opened before that is not visible")
    else:
        fake.skip("EL-11", "the user did not agree to visit the URL")
    summary = shown(reply.result) if reply.result else reply.summary
    fake.expect("EL-14", not visits, f"the URL was opened, although the answer was {summary}", about=reply.about)


def _judge_undeclared_mode(fake: FakeServer, client_capabilities: dict[str, Any], reply: Reply) -> None:
    if not declares(client_capabilities, ELICIT) and "url" not in members(client_capabilities.get("elicitation")):
        fake.give_up("the client did not declare elicitation")
    for rule in ("EL-11", "EL-14"):
        fake.skip(rule, "the client does not declare the mode url")
    if reply.about is None:
        fake.give_up("the client did not answer")
    why = f"the client does not declare the mode url, and a question in that mode got {reply.summary}"
    fake.expect("EL-09", reply.code == INVALID_PARAMS, why, about=reply.about)


@scenario("EL-12")
async def reports_the_end_of_an_unknown_visit(fake: FakeServer) -> None:
    """Reports the end of a visit that the client was not asked for."""

    def report(message: ClientMessage) -> None:
        message.connection.notify("notifications/elicitation/complete", {"elicitationId": "never-asked"})

    await fake.exited_after("tools/list", report)
    fake.expect_as_usual("EL-12", "when the end of an unknown visit was reported")
    errors = [message for message in fake.responses() if "error" in message.members]
    fake.forbid("EL-12", errors, "the client sent an error in response to a notification")
