"""The script of the client for each server of this folder: it uses all their features, and names that do not exist."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from twopipes import Client, McpError
from twopipes.errors import CapabilityMissing

# Answers of the user that are not forms.
DECLINED = object()
CANCELLED = None


@dataclass(frozen=True, kw_only=True)
class Script:
    """A conversation.

    Attributes:
        calls: Tools with their arguments, in order.
        reads: URIs of resources.
        prompts: Prompts with their arguments.
        completions: An argument, the part that is typed, and the prompt or template it belongs to.
        forms: The answers of the user, by question.
    """

    calls: list[tuple[str, dict[str, Any]]]
    reads: list[str] = field(default_factory=list)
    prompts: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    completions: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    forms: dict[str, Any] = field(default_factory=dict)


NOTES = Script(
    calls=[
        ("add_note", {"title": "tea", "text": "Green, not black.", "tags": ["shopping"]}),
        ("add_note", {"title": "plan", "text": "None."}),
        ("add_note", {"title": "tea", "text": "Once more."}),
        ("add_note", {"title": "", "text": "About nothing."}),
        ("add_note", {"title": "no text"}),
        ("find_notes", {"word": "shopping"}),
        ("find_notes", {"word": "shopping", "limit": 1}),
        ("find_notes", {"word": "nowhere"}),
        ("find_notes", {"word": "shopping", "limit": 0}),
        ("find_notes", {"word": 7}),
        ("find_notes", {"word": "shopping", "limit": "1"}),
        ("find_notes", {"word": "shopping", "most": 1}),
        ("delete_note", {"title": "tea"}),
        ("delete_note", {"title": "plan"}),
        ("delete_note", {"title": "milk"}),
        ("delete_note", {"title": "coffee"}),
        ("burn_notes", {}),
    ],
    reads=["notes://titles", "notes://text/milk", "notes://text/coffee", "notes://nowhere", "books://titles"],
    prompts=[
        ("rewrite", {"title": "milk"}),
        ("rewrite", {"title": "milk", "style": "rhyming"}),
        ("rewrite", {"style": "rhyming"}),
        ("forget", {}),
    ],
    forms={
        "Delete the note about tea?": {"delete": True},
        "Delete the note about plan?": DECLINED,
        "Delete the note about milk?": {"delete": False},
    },
)
WEATHER = Script(
    calls=[
        ("temperature", {"city": "Bergen"}),
        ("temperature", {"city": "Lima", "unit": "fahrenheit"}),
        ("temperature", {"city": "Lima", "unit": "kelvin"}),
        ("temperature", {"city": "Atlantis"}),
        ("temperature", {}),
        ("forecast", {"city": "Lisbon"}),
        ("forecast", {"city": "Lisbon", "days": 1, "unit": "fahrenheit"}),
        ("forecast", {"city": "Lisbon", "days": 9}),
        ("warmest", {"cities": ["Lima", "Bergen"]}),
        ("warmest", {"cities": []}),
        ("warmest", {"cities": "Lima"}),
        ("chart", {"city": "Lima"}),
        ("chart", {"city": "Atlantis"}),
        ("describe", {"city": "Bergen"}),
        ("difference", {"first": "Lima", "second": "Bergen"}),
        ("difference", {"first": "Lima", "second": "Atlantis"}),
        ("humidity", {"city": "Lima"}),
    ],
    reads=["weather://cities", "weather://Lima/2", "weather://Lima/9", "weather://Lima/two", "weather://Lima", "weather://"],
    prompts=[("packing", {"city": "Lima"}), ("packing", {"city": "Atlantis"}), ("packing", {}), ("unpacking", {})],
    completions=[
        ("city", "Li", {"prompt": "packing"}),
        ("city", "X", {"prompt": "packing"}),
        ("city", "B", {"resource": "weather://{city}/{day}"}),
    ],
)
TODO = Script(
    calls=[
        ("add", {"what": "write to Ada"}),
        ("add", {"what": "post it", "priority": "high"}),
        ("add", {"what": "forget it", "priority": "none"}),
        ("add", {}),
        ("finish", {}),
        ("finish", {"number": 2}),
        ("finish", {"number": 9}),
        ("finish", {"number": "first"}),
        ("add", {"what": "wait for an answer"}),
        ("break_down", {"number": 1}),
        ("break_down", {"number": 9}),
        ("plan", {}),
        ("clear", {}),
        ("sleep", {}),
    ],
    reads=["todo://open", "todo://closed"],
    prompts=[("daily", {}), ("weekly", {})],
    forms={"Which tasks shall go?": {"value": "done"}},
)
BOOKSHOP = Script(
    calls=[
        ("search", {"words": "emm"}),
        ("search", {"words": "nothing"}),
        ("search", {"words": "e"}),
        ("search", {"words": ["e"]}),
        ("search", {"words": "emm", "language": "English"}),
        ("order", {"title": "Emma", "copies": 2}),
        ("order", {"title": "Walden"}),
        ("order", {"title": "Persuasion"}),
        ("order", {"title": "Ulysses"}),
        ("order", {"copies": 2}),
        ("cover", {"title": "Emma"}),
        ("shelf", {"title": "Walden"}),
        ("shelf", {"title": "Ulysses"}),
        ("sell", {"title": "Emma"}),
    ],
    reads=["shop://hours", "shop://books/Emma", "shop://books/Ulysses", "shop://prices"],
    prompts=[
        ("recommend", {"mood": "sad"}),
        ("recommend", {"mood": "sad", "language": "French"}),
        ("recommend", {}),
        ("discourage", {}),
    ],
    completions=[("mood", "h", {"prompt": "recommend"}), ("mood", "x", {"prompt": "recommend"})],
    forms={
        "Where shall Emma go?": {"street": "Highbury 1", "express": True},
        "Where shall Walden go?": DECLINED,
        "Where shall Persuasion go?": {"street": "Kellynch 2"},
        "Where shall Ulysses go?": CANCELLED,
    },
)
LEDGER = Script(
    calls=[
        ("spend", {"expense": {"what": "paper", "cents": 450}}),
        ("spend", {"expense": {"what": "a printer", "cents": 20_000}}),
        ("spend", {"expense": {"what": "a car", "cents": 900_000}}),
        ("spend", {"expense": {"what": "a house", "cents": 90_000_000}}),
        ("spend", {"expense": {"what": "nothing", "cents": 0}}),
        ("spend", {"expense": {"what": "something"}}),
        ("spend", {}),
        ("total", {}),
        ("query", {"sql": "SELECT what, cents FROM expense ORDER BY cents"}),
        ("query", {"sql": "SELECT what FROM expense", "limit": 1}),
        ("query", {"sql": "SELECT FROM"}),
        ("query", {"sql": "SELECT 1", "limit": "one"}),
        ("query", {"sql": "SELECT 1", "limit": "1"}),
        ("query", {"sql": "SELECT 1", "most": 1}),
        ("advice", {}),
        ("earn", {"cents": 1}),
    ],
    reads=["ledger://rules", "ledger://rules/de", "ledger://rules/eo", "ledger://exceptions"],
    prompts=[("audit", {"month": "May"}), ("audit", {}), ("burn", {})],
    forms={
        "20000 cents for a printer?": {"approve": True},
        "900000 cents for a car?": {"approve": False},
        "90000000 cents for a house?": DECLINED,
    },
)
DOCUMENTS = Script(
    calls=[
        ("measure", {"name": "readme"}),
        ("measure", {"name": "readme", "most": 1}),
        ("measure", {"name": "novel"}),
        ("measure", {}),
        ("search", {"word": "read"}),
        ("search", {"word": "ea", "limit": 1}),
        ("search", {"word": "nothing"}),
        ("search", {"word": "x"}),
        ("search", {"word": "read", "limit": "all"}),
        ("shred", {"name": "readme"}),
    ],
    reads=["docs://about", "docs://text/licence", "docs://text/novel", "docs://else"],
    prompts=[("explain", {"name": "licence"}), ("explain", {"name": "novel"}), ("explain", {}), ("praise", {})],
)


def answering(script: Script) -> dict[str, Callable[..., Any]]:
    """Return the callbacks that answer the questions of the server."""

    def fill_in(question: Any) -> Any:
        answer = script.forms[question.message]
        return question.decline() if answer is DECLINED else answer

    return {"on_elicit": fill_in, "on_sample": lambda _wanted: "Have a nap.", "on_log": lambda _params: None}


async def converse(client: Client, script: Script) -> dict[str, Any]:
    """Send all requests of a script, one after the other, and return the outcomes by request."""
    if client.era == "modern" or client.capabilities.allows("logging"):
        await client.set_log_level("info")
    await client.list_tools()
    if client.capabilities.allows("resources"):
        await client.list_resources()
        await client.list_resource_templates()
    if client.capabilities.allows("prompts"):
        await client.list_prompts()
    came = {}
    for name, arguments in script.calls:
        came[f"{name} {arguments}"] = await outcome(client.call_tool(name, arguments, on_progress=lambda _report: None))
    for uri in script.reads:
        await outcome(client.read_resource(uri))
    for name, arguments in script.prompts:
        await outcome(client.get_prompt(name, arguments))
    for argument, typed, whose in script.completions:
        await outcome(client.complete(argument, typed, **whose))
    return came


async def outcome(awaitable: Any) -> Any:
    """Return the result or the error."""
    try:
        return await awaitable
    except (McpError, CapabilityMissing) as error:
        return error
