r"""Probes: functions that test a server for one or more rules, and the tools they use.

A probe is a coroutine function in the ``probes.py`` of its topic::

    @probe("FR-02", "JR-06")
    async def newlines_travel_as_escapes(case: Case) -> None:
        response = await case.conversation.request(case.harmless, request_id="a\nb")
        case.expect("FR-02", response.is_result, f"a request with a newline in its id got {response.summary}", about=response)

It runs once in each revision that it is meant for and that the server speaks.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Literal

from msgspec import Struct

from twopipes._protocol.revisions import LEGACY, MODERN
from twopipes._rules.rule import Rule
from twopipes._rules.table import SECTIONS
from twopipes._tools.check.conversation import LiveConversation
from twopipes._tools.check.messages import NoResponse, ProbeTimeouts, Response, members
from twopipes._tools.check.server_source import ServerTarget
from twopipes._tools.check.verdict import Skip, VerdictRecorder
from twopipes.errors import LocalProtocolError

Revisions = Literal["eras", "each", "newest"] | tuple[str, ...]
"""Of the revisions that have one of the rules and that the peer speaks: ``eras`` for the newest legacy and the newest modern one,
``each`` for all, ``newest`` for one, if the revision makes no difference. Or the given ones."""

Body = Callable[["Case"], Coroutine[Any, Any, None]]


class Probe(Struct, frozen=True, kw_only=True):
    """A registered probe.

    By default it shares a conversation (a process) with others. A failure found there is tried again in a fresh conversation before
    it counts.
    """

    name: str
    section: str
    rules: tuple[str, ...]  # those without a verdict at its end are skipped
    body: Body
    description: str = ""
    revisions: Revisions = "eras"
    opens_own: bool = False  # it opens all conversations that it needs by itself
    fresh_conversation: bool = False  # it gets its own conversation, because it damages it or needs an unused one
    # It shares a conversation only with other such probes of its section, because it leaves something behind: a log level, a
    # changed list, a subscription.
    section_only: bool = False
    runs_last: bool = False  # the conversation cannot be used after this probe, so it runs last in one that others have used
    # If the server ignores a request of the probe, the rules without a verdict are broken. By default they are skipped: a tool may
    # take its time.
    silence_fails: bool = False
    judged: bool = True  # whether the messages of its conversation are judged passively; False if the probe itself breaks rules
    # Without these, the probe is skipped: a capability of the server (tools, resources.subscribe), process (whose exit can be
    # observed), socket, stream (anything but HTTP), http, call (a tool that may be called), tool:NAME (that tool), question (a
    # callable tool that asks its client).
    needs: tuple[str, ...] = ()
    client_capabilities: Mapping[str, Any] | None = None  # those that the conversation declares


PROBES: list[Probe] = []
"""All probes, after :func:`all_probes` has loaded them."""


def probe(*rules: str, needs: str | Sequence[str] = (), **options: Any) -> Callable[[Body], Body]:
    """Register a coroutine function as a probe, with the fields of :class:`Probe` as options."""
    if sum(map(options.__contains__, ("opens_own", "fresh_conversation", "section_only", "runs_last"))) > 1:
        raise LocalProtocolError("a probe takes at most one of opens_own, fresh_conversation, section_only and runs_last")
    options["needs"] = (needs,) if isinstance(needs, str) else tuple(needs)

    def enter(body: Body) -> Body:
        PROBES.append(Probe(name=body.__name__, rules=rules, body=body, **about(body), **options))
        return body

    return enter


def about(body: Callable[..., Any]) -> dict[str, Any]:
    """Return the section of a probe or a scenario, by its module, and its description."""
    topic = body.__module__.split(".")[-2]
    section = next((section for section, found in SECTIONS.items() if found.name == topic), "")
    return {"section": section, "description": (body.__doc__ or "").strip()}


def load_topics(kind: str) -> None:
    """Import the modules of every topic whose names end with ``probes`` or ``scenarios``, which registers these."""
    for topic in SECTIONS.values():
        package = import_module(f"twopipes._tools.check.{topic.name}")
        for found in sorted(iter_modules(package.__path__), key=lambda each: each.name):
            if found.name.endswith(kind):
                import_module(f"{package.__name__}.{found.name}")


def all_probes() -> list[Probe]:
    """Return the probes of all sections."""
    load_topics("probes")
    return PROBES


def revisions_for(rules: Iterable[Rule], wanted: Revisions, spoken: Sequence[str]) -> list[str]:
    """Return the spoken revisions in which these rules are tried, in order."""
    found: set[str] = set()
    for rule in rules:
        common = [each for each in spoken if rule.applies_in(each)]
        if wanted == "eras":
            found.update([each for each in common if each in LEGACY][-1:])
            found.update([each for each in common if each in MODERN][-1:])
        elif wanted == "newest":
            found.update(common[-1:])
        else:
            found.update(each for each in common if wanted == "each" or each in wanted)
    return [each for each in spoken if each in found]


class SafeCall(Struct, frozen=True, kw_only=True):
    """A tool that may be called, with arguments."""

    name: str
    arguments: Mapping[str, Any]  # they should match its schema
    tool: Mapping[str, Any]  # as it was listed
    why: str  # what permits the call: readOnlyHint, --allow-tool or --call

    @property
    def params(self) -> dict[str, Any]:
        """The params of a ``tools/call``."""
        return {"name": self.name, "arguments": dict(self.arguments)}

    @property
    def takes_other_arguments(self) -> bool:
        """Whether the tool may also be called with other arguments.

        ``--call`` permits one call, not the tool: with another path, for example, a tool that writes would change another file.
        """
        return self.why != "--call" or self.is_read_only

    @property
    def is_read_only(self) -> bool:
        """Whether the tool declares ``readOnlyHint``."""
        return _is_read_only(self.tool)

    @property
    def texts(self) -> list[str]:
        """The names of arguments that accept any text, if other arguments are permitted."""
        properties = members(members(self.tool.get("inputSchema")).get("properties")) if self.takes_other_arguments else {}
        return [name for name, schema in properties.items() if _is_free_text(schema)]

    def with_text(self, text: str) -> dict[str, Any] | None:
        """Return the params with this text in an argument that accepts any text; ``None`` if there is none."""
        return {"name": self.name, "arguments": {**self.arguments, self.texts[0]: text}} if self.texts else None


class Permissions(Struct, frozen=True, kw_only=True):
    """The tools that may be called, in addition to those that declare ``readOnlyHint``."""

    tools: frozenset[str] = frozenset()  # with any arguments
    calls: Mapping[str, Mapping[str, Any]] = {}  # with these arguments only


class Features(Struct, kw_only=True):
    """What a server declared and listed in one revision."""

    capabilities: dict[str, Any] = {}
    tools: list[dict[str, Any]] = []
    resources: list[dict[str, Any]] = []
    templates: list[dict[str, Any]] = []
    prompts: list[dict[str, Any]] = []
    failed: dict[str, str] = {}  # for each list method that failed, why

    def has(self, capability: str) -> bool:
        """Return whether a capability was declared. A dot separates a detail: ``resources.subscribe``."""
        at: Any = self.capabilities
        for key in capability.split("."):
            if not isinstance(at, dict) or key not in at or at[key] is False:
                return False
            at = at[key]
        return True

    @property
    def uris(self) -> list[str]:
        """The URIs of the listed resources."""
        return [each["uri"] for each in self.resources if isinstance(each.get("uri"), str)]

    def tool(self, name: str) -> dict[str, Any] | None:
        """Return a tool by its name."""
        return next((each for each in self.tools if each.get("name") == name), None)

    def safe_calls(self, permissions: Permissions) -> list[SafeCall]:
        """Return the permitted calls, explicitly requested ones first."""
        found: dict[str, list[SafeCall]] = {"--call": [], "--allow-tool": [], "readOnlyHint": []}
        for tool in self.tools:
            name = tool.get("name")
            if not isinstance(name, str):
                continue
            why = "readOnlyHint" if _is_read_only(tool) else ""
            why = "--call" if name in permissions.calls else "--allow-tool" if name in permissions.tools else why
            arguments = permissions.calls[name] if why == "--call" else made_up_arguments(tool.get("inputSchema"))
            if why and arguments is not None:
                found[why].append(SafeCall(name=name, arguments=arguments, tool=tool, why=why))
        return [call for calls in found.values() for call in calls]


def _is_read_only(tool: Mapping[str, Any]) -> bool:
    return members(tool.get("annotations")).get("readOnlyHint") is True


class Case(VerdictRecorder):
    """One run of a probe in one revision."""

    def __init__(self, probe: Probe, *, target: ServerTarget, revision: str, features: Features, permissions: Permissions) -> None:
        super().__init__(probe.name, probe.rules, "server", revision)
        self.target = target
        self.features = features
        self.permissions = permissions
        self._conversation: LiveConversation | None = None
        self._begin = (0, 0)
        self._last: LiveConversation | None = None
        self._opened: list[LiveConversation] = []

    def use(self, conversation: LiveConversation) -> None:
        """Set the conversation of the probe."""
        self._conversation = self._last = conversation
        self._begin = len(conversation.sent_lines), conversation.position

    @property
    def conversation(self) -> LiveConversation:
        """The conversation of this probe."""
        if self._conversation is None:
            raise LocalProtocolError(f"{self.name} has no conversation")
        return self._conversation

    @property
    def timeouts(self) -> ProbeTimeouts:
        """The timeouts of this run."""
        return self.target.timeouts

    @property
    def is_modern(self) -> bool:
        """Whether the revision is modern."""
        return self.revision in MODERN

    @property
    def harmless(self) -> str:
        """A method that this server answers with a result, and that changes nothing.

        A server that does not answer ``ping`` breaks one rule; probes of other rules must not fail because of it.
        """
        return self.target.harmless.get(self.revision) or ("server/discover" if self.is_modern else "ping")

    @property
    def list_methods(self) -> list[str]:
        """The methods of the lists that the server declares, of tools, resources and prompts."""
        return [f"{each}/list" for each in ("tools", "resources", "prompts") if self.features.has(each)]

    async def open_conversation(
        self, *, client_capabilities: Mapping[str, Any] | None = None, opened: bool = True, judged: bool = True
    ) -> LiveConversation:
        """Start another conversation, and open it in this revision if ``opened``. It is closed after the probe at the latest."""
        conversation = await self.target.open()
        conversation.judged = judged
        self._opened.append(conversation)
        self._last = conversation
        if opened:
            await conversation.open(self.revision, client_capabilities)
        return conversation

    async def conversation_with(self, client_capabilities: Mapping[str, Any]) -> LiveConversation:
        """Return a conversation with these client capabilities: a new one if legacy, the current one if modern."""
        if not self.is_modern:
            return await self.open_conversation(client_capabilities=client_capabilities)
        self.conversation.client_capabilities = client_capabilities
        return self.conversation

    def expect_code(self, rule: str, response: Response, code: int, what: str) -> bool:
        """Judge a rule by the error code of a response; ``what`` describes the request."""
        why = f"{what} got {response.summary} instead of the error {code}"
        return self.expect(rule, response.code == code, why, about=response)

    @property
    def safe_calls(self) -> list[SafeCall]:
        """The tools that may be called, explicitly requested ones first."""
        return self.features.safe_calls(self.permissions)

    def safe_call(self, *, with_text: bool = False) -> SafeCall:
        """Return a tool that may be called, optionally one with an argument that accepts any text; raise Skip if there is none."""
        for call in self.safe_calls:
            if call.texts or not with_text:
                return call
        raise Skip(no_call("with a text argument " if with_text else ""))

    def fixture(self, name: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the params of a call of a tool that test servers have (``boom``, ``ask``); raise Skip if there is none."""
        for call in self.safe_calls:
            if call.name == name:
                return {"name": name, "arguments": dict(call.arguments if arguments is None else arguments)}
        raise Skip(no_such_tool(name))

    async def was_ignored(self, silence: NoResponse) -> bool:
        """Return whether the server answers other requests, but not the one that the probe waited for."""
        return self._last is not None and silence.request_id is not None and await self._last.is_ignored(silence.request_id)

    def quotable(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """Return the lines since the probe began, of the conversation that it opened last."""
        if self._last is None:
            return (), ()
        sent, received = self._begin if self._last is self._conversation else (0, 0)
        return self._last.sent_lines[sent:], [line.raw for line in self._last.received_lines[received:]]

    @property
    def left_after(self) -> float | None:
        """Seconds until the server ended a conversation: the longest one, or ``None``."""
        return max((each.left_after for each in self._conversations if each.left_after is not None), default=None)

    @property
    def silence(self) -> float | None:
        """Seconds without any response, if that is at least the timeout for the first response."""
        silences = [each.silence for each in self._conversations if each.left_after is None]
        return max((silence for silence in silences if silence >= self.timeouts.start), default=None)

    @property
    def _conversations(self) -> list[LiveConversation]:
        return [*self._opened, *([self._conversation] if self._conversation is not None else [])]

    async def close(self) -> None:
        """Close the conversations that the probe opened."""
        for conversation in self._opened:
            with suppress(TimeoutError):
                await conversation.close()


def no_call(kind: str = "") -> str:
    """Return the reason for skipping a probe that needs to call a tool, optionally of a certain kind."""
    return f"no tool {kind}may be called: none declares readOnlyHint; name one with --allow-tool or --call"


def no_such_tool(name: str) -> str:
    """Return the reason for skipping a probe that needs a tool of a certain name."""
    return f"the server has no tool {name!r} that may be called (see --allow-tool)"


def made_up_arguments(schema: Any) -> dict[str, Any] | None:
    """Return arguments that a schema should accept: only the required ones. ``None`` if they cannot be derived."""
    if schema is None:
        return {}
    keywords = members(schema)
    required = keywords.get("required", [])
    properties = members(keywords.get("properties"))
    if not isinstance(required, list) or keywords.keys() & {"allOf", "anyOf", "oneOf", "not", "if", "$ref"}:
        return None
    found = [(name, _made_up(properties.get(name, True)) if isinstance(name, str) else _UNKNOWN) for name in required]
    return None if any(value is _UNKNOWN for _name, value in found) else dict(found)


_UNKNOWN = object()
_SIMPLE = {"string": "text", "boolean": False, "null": None, "array": []}
# Keywords that restrict a value beyond its type. No value is made up for a schema that has one of them.
_NARROWS = {"pattern", "format", "minLength", "maxLength", "minItems", "allOf", "anyOf", "oneOf", "not", "$ref", "multipleOf"}


def _made_up(schema: Any) -> Any:
    if schema is True or schema == {}:
        return "text"
    keywords = members(schema)
    for key in ("const", "default"):
        if key in keywords:
            return keywords[key]
    if isinstance(keywords.get("enum"), list) and keywords["enum"]:
        return keywords["enum"][0]
    if _NARROWS & keywords.keys():
        return _UNKNOWN
    match keywords.get("type"):
        case list() as kinds:
            return next((made for kind in kinds if (made := _made_up({**keywords, "type": kind})) is not _UNKNOWN), _UNKNOWN)
        case "integer" | "number":
            return keywords.get("minimum", min(1, keywords.get("maximum", 1)))
        case "object":
            made = made_up_arguments(keywords)
            return _UNKNOWN if made is None else made
        case str() as kind:
            return _SIMPLE.get(kind, _UNKNOWN)
    return _UNKNOWN


def _is_free_text(schema: Any) -> bool:
    keywords = members(schema)
    return keywords.get("type") == "string" and not ({"enum", "const"} | _NARROWS) & keywords.keys()
