"""Elicitation, from the side of a server: forms, choices and addresses."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from twopipes._client.form_check import form_errors
from twopipes._protocol.revisions import CLIENT_CAPABILITIES
from twopipes._tools.check.asking_tools import AskingTool, Reply, Round, form
from twopipes._tools.check.fake_server import ClientMessage, FakeServer, scenario
from twopipes._tools.check.questions import ELICIT, declares, members, reply_faults, shown
from twopipes._tools.check.round_trips.scenarios import judge_a_no

_NAME = {"name": {"type": "string", "title": "Name", "minLength": 1}}
_COLOURS = ["red", "green", "blue"]
_TITLED = [{"const": each, "title": each.title()} for each in _COLOURS]
# Each way to write a choice, and each kind of field, with a default.
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
_INVALID_PARAMS = -32602


@scenario("EL-06", "EL-07", "EL-16")
async def asks_by_forms(fake: FakeServer) -> None:
    """The user is asked for a name, once with the mode of the question in it and once without."""
    mode = {"mode": "form"} if CLIENT_CAPABILITIES["elicitation.form"].has(fake.revision) else {}
    usual = AskingTool(fake, "ask", Round(questions={"who": form("Who are you?", _NAME, required=["name"], **mode)}))
    plain = AskingTool(fake, "ask-without-a-mode", Round(questions={"who": form("And who are you?", _NAME, required=["name"])}))
    await fake.client_exited()
    usual.require()
    for reply in (asker.replies["who"] for asker in (usual, plain) if "who" in asker.replies):
        if isinstance(reply.result, dict):
            _judge_a_reply(fake, reply)
    if isinstance(usual.answered("who").result, dict) and "who" in plain.replies:
        without = plain.replies["who"]
        fake.expect(
            "EL-07",
            isinstance(without.result, dict),
            f"a form with mode form was answered, and the same without a mode got {without.summary}",
            fix="Take a question without a mode for a form.",
            about=without.about,
        )


def _judge_a_reply(fake: FakeServer, reply: Reply) -> None:
    faults = list(reply_faults(reply.result))
    fix = 'Answer with {"action": ...}: accept with the content, or decline or cancel without.'
    fake.expect("EL-06", not faults, "; ".join(faults), fix=fix, about=reply.about)
    if reply.result.get("action") != "accept":
        return
    faults = form_errors(reply.params["requestedSchema"], members(reply.result.get("content")))
    fake.expect(
        "EL-16",
        not faults,
        f"the form was accepted with what does not fit it: {'; '.join(faults)}",
        fix="Check what was filled in against requestedSchema before you send it.",
        about=reply.about,
    )


@scenario("EL-04", "EL-05")
async def asks_for_choices(fake: FakeServer) -> None:
    """The user is asked with a form of all kinds of fields and choices, each of which has a default."""
    simple = AskingTool(fake, "ask", Round(questions={"who": form("Who are you?", _NAME, required=["name"])}))
    rich = AskingTool(fake, "ask-for-choices", Round(questions={"what": form("What do you like?", _FIELDS)}))
    await fake.client_exited()
    plain = simple.answered("who")
    reply = rich.reply("what")
    if not isinstance(reply.result, dict):
        fake.expect(
            "EL-04",
            condition=False,
            why=f"a plain form was answered, and one with choices and defaults got {reply.summary}",
            fix="Understand enum, oneOf, enumNames, and arrays of enum or anyOf, each with a default.",
            about=reply.about,
        )
        return
    if reply.result.get("action") != "accept":
        fake.give_up("the user did not accept the form")
    content = members(reply.result.get("content"))
    faults = form_errors(reply.params["requestedSchema"], content)
    fake.expect(
        "EL-04",
        not faults,
        f"the answers do not fit the choices: {'; '.join(faults)}",
        fix="Answer a multiple choice with an array of its values, and any other with one of them.",
        about=reply.about,
    )
    kept = [name for name, field in _FIELDS.items() if name in content and content[name] == field["default"]]
    if not kept and content.keys() >= _FIELDS.keys():
        fake.give_up("every field was filled in with something else, so the check cannot tell what stood there before")
    if content and content == members(plain.result.get("content")):
        # A callback that has never looked at the form: what the client would show to somebody who does, it does not tell.
        fake.give_up("the form was filled in just as another one, so the check cannot tell whether anybody saw the defaults")
    fake.expect(
        "EL-05",
        kept,
        "all fields have a default, some were left as they were, and the form was accepted with none of the defaults in it",
        fix="Fill the form in with the defaults before the user sees it, and send what was left as it was along.",
        about=reply.about,
    )


@scenario("EL-09", "EL-11", "EL-14", "MR-19")
async def asks_to_visit_a_page(fake: FakeServer) -> None:
    """The user is asked to visit a page on this machine, which takes notice of everybody who comes."""
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/visit"
    question: dict[str, Any] = {"mode": "url", "message": "Please visit a page.", "url": url}
    if not fake.is_modern:
        question["elicitationId"] = "fake-visit"
    asker = AskingTool(fake, "ask-to-visit", Round(questions={"visit": (ELICIT, question)}), undeclared=not fake.is_modern)
    visits: list[float] = []

    async def visited(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visits.append(fake.now())
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    page = await asyncio.start_server(visited, sock=listening)
    async with page:
        await fake.client_exited()
    reply = asker.reply("visit")
    client_capabilities = asker.calls[0].connection.client_capabilities
    if not declares(client_capabilities, ELICIT, question):
        _judge_an_undeclared_mode(fake, client_capabilities, reply)
        return
    fake.skip("EL-09", "the client declares the mode url")
    if fake.is_modern and reply.about is not None:
        judge_a_no(fake, reply.result, about=reply.about)
    accepted = isinstance(reply.result, dict) and reply.result.get("action") == "accept"
    if accepted:
        fake.expect(
            "EL-11",
            not reply.result.get("content"),
            f"the consent to visit a page came with content: {shown(reply.result.get('content'))}",
            fix='Answer with {"action": "accept"} alone.',
            about=reply.about,
        )
    else:
        fake.skip("EL-11", "the user did not agree to visit the page")
    if accepted and visits:
        fake.give_up("the user agreed; the check cannot tell from outside whether the page was opened before that")
    fake.expect(
        "EL-14",
        not visits,
        f"the page was opened before the user agreed: the answer was {shown(reply.result) if reply.result else reply.summary}",
        fix="Show the address, and open nothing before the user agrees; no preview either.",
        about=reply.about,
    )


def _judge_an_undeclared_mode(fake: FakeServer, client_capabilities: dict[str, Any], reply: Reply) -> None:
    if not declares(client_capabilities, ELICIT) and "url" not in members(client_capabilities.get("elicitation")):
        fake.give_up("the client did not declare elicitation")
    for rule in ("EL-11", "EL-14"):
        fake.skip(rule, "the client does not declare the mode url")
    if reply.about is None:
        fake.give_up("the client did not answer")
    fake.expect(
        "EL-09",
        reply.code == _INVALID_PARAMS,
        f"the client does not declare the mode url, was asked in it, and answered with {reply.summary}",
        fix="Answer a question in a mode that you did not declare with -32602.",
        about=reply.about,
    )


@scenario("EL-12")
async def tells_the_end_of_an_unknown_visit(fake: FakeServer) -> None:
    """The end of a visit is told that the client was never asked to make."""

    def tell(message: ClientMessage) -> None:
        told_of = {"elicitationId": "nobody-was-asked"}
        message.connection.send({"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": told_of})

    fake.on["tools/list"] = tell
    await fake.wait_for("tools/list")
    await fake.client_exited()
    fake.expect(
        "EL-12",
        not fake.what_differs,
        f"when the end of a visit was told that it knows nothing about, {fake.what_differs}",
        fix="Ignore ids that you do not know.",
    )
    errors = [message for message in fake.responses() if "error" in message.members]
    fake.expect(
        "EL-12",
        not errors,
        "the client answered a notification with an error",
        fix="Ignore ids that you do not know.",
        about=errors[0] if errors else None,
    )
