"""The context parameter with a type, the results of a form, and the log of the server side."""

import asyncio
import logging
from dataclasses import dataclass

import pytest

from twopipes import Context, Server, connect
from twopipes._server.log import logger
from twopipes.types import AcceptedForm, CancelledForm, DeclinedForm


@dataclass
class App:
    database: str


def test_a_context_with_the_type_of_the_lifespan_is_filled_by_the_server():
    server = Server("s")

    @server.tool
    async def query(text: str, ctx: Context[App]) -> str:
        return f"{text} {ctx.lifespan}"

    @server.prompt
    def ask(topic: str, ctx: "Context[App] | None" = None) -> str:
        return f"{topic} {ctx}"

    assert list(server.tools.entries.get("query").tool.input_schema["properties"]) == ["text"]
    assert [argument.name for argument in server.prompts.entries.get("ask").prompt.arguments] == ["topic"]


@pytest.mark.parametrize(
    ("result", "action", "accepted", "content"),
    [
        (AcceptedForm({"name": "Ada"}), "accept", True, {"name": "Ada"}),
        (AcceptedForm({}), "accept", True, {}),
        (AcceptedForm(None), "accept", True, None),
        (DeclinedForm(), "decline", False, None),
        (CancelledForm(), "cancel", False, None),
    ],
)
def test_the_results_of_a_form_have_the_same_attributes(result, action, accepted, content):
    assert (result.action, result.accepted, result.content, bool(result)) == (action, accepted, content, accepted)


async def failing() -> str:
    raise KeyError("secret")


async def call_failing() -> None:
    async with connect(Server("s", tools=[failing])) as client:
        assert (await client.call_tool("failing")).is_error


def recorder(records: list) -> logging.Handler:
    handler = logging.Handler()
    handler.emit = records.append
    return handler


def test_a_handler_of_the_logger_gets_failures_too(capsys):
    records: list = []
    handler = recorder(records)
    logger.addHandler(handler)
    try:
        asyncio.run(call_failing())
    finally:
        logger.removeHandler(handler)
    (record,) = records
    assert (record.name, record.levelno) == ("twopipes.server", logging.ERROR)
    assert capsys.readouterr().err == f"{record.getMessage()}\n"


def test_a_configured_root_logger_does_not_show_failures_twice(capsys, monkeypatch):
    records: list = []
    monkeypatch.setattr(logging.root, "handlers", [recorder(records)])
    asyncio.run(call_failing())
    assert [record for record in records if record.name.startswith("twopipes.server")] == []
    assert capsys.readouterr().err.startswith("Error: tools/call failing failed\n")
