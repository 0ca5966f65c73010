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
from typing import Any, Literal

from msgspec import Struct

from twopipes._protocol.revisions import LEGACY, MODERN
from twopipes._rules.rule import Rule
from twopipes._rules.table import RULES
from twopipes._tools.check.conversation import LiveConversation, NoResponse
from twopipes._tools.check.server_source import ServerTarget
from twopipes._tools.check.topics import load_all, section_of
from twopipes._tools.check.verdict import Skip, VerdictRecorder
from twopipes.errors import LocalProtocolError

__all__ = ["PROBES", "Case", "Features", "Permissions", "Probe", "Revisions", "SafeCall", "all_probes", "probe", "revisions_for"]

Revisions = Literal["eras", "each", "newest"] | tuple[str, ...]
Body = Callable[["Case"], Coroutine[Any, Any, None]]


class Probe(Struct, frozen=True, kw_only=True):
    """A registered probe; see :func:`probe`."""

    name: str
    section: str
    rules: tuple[str, ...]
    body: Body
    revisions: Revisions = "eras"
    opens_own: bool = False
    fresh_conversation: bool = False
    section_only: bool = False
    runs_last: bool = False
    silence_fails: bool = False
    judged: bool = True
    needs: tuple[str, ...] = ()
    client_capabilities: Mapping[str, Any] | None = None
    description: str = ""


PROBES: list[Probe] = []
"""All probes, after :func:`all_probes` has loaded them."""


def probe(
    *rules: str,
    revisions: Revisions = "eras",
    opens_own: bool = False,
    fresh_conversation: bool = False,
    section_only: bool = False,
    runs_last: bool = False,
    silence_fails: bool = False,
    judged: bool = True,
    needs: str | Sequence[str] = (),
    client_capabilities: Mapping[str, Any] | None = None,
) -> Callable[[Body], Body]:
    """Register a coroutine function as a probe.

    By default a probe shares a conversation (a process) with others. A failure found there is tried again in a fresh conversation
    before it counts.

    Args:
        *rules: The ids of the rules that the probe judges. Those without a verdict at its end are skipped.
        revisions: Of the revisions that have one of the rules and that the server speaks: ``eras`` for the newest legacy and the
            newest modern one, ``each`` for all, ``newest`` for one, if the revision makes no difference. Or the given ones.
        opens_own: The probe opens all conversations that it needs by itself.
        fresh_conversation: The probe gets a conversation of its own, because it damages it or needs an unused one.
        section_only: The probe shares a conversation only with other such probes of its section, because it leaves something
            behind: a log level, a changed list, a subscription.
        runs_last: The conversation cannot be used after this probe, so it runs last in one that others have used.
        silence_fails: If the server ignores a request of the probe, the rules without a verdict are broken. By default they are
            skipped: a tool may take its time.
        judged: Whether the messages of its conversation are judged passively. Use ``False`` if the probe itself breaks rules.
        needs: Requirements without which the probe is skipped: a capability of the server (``tools``, ``resources.subscribe``),
            ``process`` (a process whose exit can be observed), ``socket``, ``call`` (a tool that may be called), ``tool:NAME``
            (that tool), ``question`` (a tool that may be called and asks its client something).
        client_capabilities: The client capabilities that the conversation declares; none by default.
    """
    wanted = (needs,) if isinstance(needs, str) else tuple(needs)
    if opens_own + fresh_conversation + section_only + runs_last > 1:
        raise LocalProtocolError("a probe takes at most one of opens_own, fresh_conversation, section_only and runs_last")

    def enter(body: Body) -> Body:
        PROBES.append(
            Probe(
                name=body.__name__,
                section=section_of(body.__module__),
                rules=rules,
                body=body,
                revisions=revisions,
                opens_own=opens_own,
                fresh_conversation=fresh_conversation,
                section_only=section_only,
                runs_last=runs_last,
                silence_fails=silence_fails,
                judged=judged,
                needs=wanted,
                client_capabilities=client_capabilities,
                description=(body.__doc__ or "").strip(),
            )
        )
        return body

    return enter


def all_probes() -> list[Probe]:
    """Return the probes of all sections."""
    load_all("probes")
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
    """A tool that may be called, with arguments.

    Attributes:
        name: The name of the tool.
        arguments: Arguments that should match its schema.
        tool: The tool as it was listed.
        why: What permits the call: ``readOnlyHint``, ``--allow-tool`` or ``--call``.
    """

    name: str
    arguments: Mapping[str, Any]
    tool: Mapping[str, Any]
    why: str

    @property
    def params(self) -> dict[str, Any]:
        """The params of a ``tools/call``."""
        return {"name": self.name, "arguments": dict(self.arguments)}

    @property
    def takes_other_arguments(self) -> bool:
        """Whether the tool may also be called with other arguments.

        ``--call`` permits one call, not the tool: with another path, for example, a tool that writes would change another file.
        """
        return self.why != "--call" or _is_read_only(self.tool)

    @property
    def texts(self) -> list[str]:
        """The names of arguments that accept any text, if other arguments are permitted."""
        if not self.takes_other_arguments:
            return []
        properties = _members(_members(self.tool.get("inputSchema")).get("properties"))
        return [name for name, schema in properties.items() if _is_free_text(schema)]

    def with_text(self, text: str) -> dict[str, Any] | None:
        """Return the params with this text in an argument that accepts any text; ``None`` if there is none."""
        return {"name": self.name, "arguments": {**self.arguments, self.texts[0]: text}} if self.texts else None


class Permissions(Struct, frozen=True, kw_only=True):
    """The tools that may be called, in addition to those that declare ``readOnlyHint``.

    Attributes:
        tools: The names of tools that may be called with any arguments.
        calls: The names of tools that may be called with these arguments only.
    """

    tools: frozenset[str] = frozenset()
    calls: Mapping[str, Mapping[str, Any]] = {}


class Features(Struct, kw_only=True):
    """What a server declared and listed in one revision.

    Attributes:
        capabilities: The declared capabilities.
        tools: The listed tools of all pages. ``resources``, ``templates`` and ``prompts`` are alike.
        failed: For each list method that failed, why.
    """

    capabilities: dict[str, Any] = {}
    tools: list[dict[str, Any]] = []
    resources: list[dict[str, Any]] = []
    templates: list[dict[str, Any]] = []
    prompts: list[dict[str, Any]] = []
    failed: dict[str, str] = {}

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
        found: list[SafeCall] = []
        for tool in self.tools:
            name = tool.get("name")
            if not isinstance(name, str):
                continue
            why = _why_safe(tool, name, permissions)
            arguments = permissions.calls[name] if why == "--call" else made_up_arguments(tool.get("inputSchema"))
            if why and arguments is not None:
                found.append(SafeCall(name=name, arguments=arguments, tool=tool, why=why))
        return sorted(found, key=lambda call: ("--call", "--allow-tool", "readOnlyHint").index(call.why))


def _why_safe(tool: Mapping[str, Any], name: str, permissions: Permissions) -> str:
    if name in permissions.calls:
        return "--call"
    if name in permissions.tools:
        return "--allow-tool"
    return "readOnlyHint" if _is_read_only(tool) else ""


def _is_read_only(tool: Mapping[str, Any]) -> bool:
    return _members(tool.get("annotations")).get("readOnlyHint") is True


class Case(VerdictRecorder):
    """One run of a probe in one revision.

    Attributes:
        target: The server.
        features: What the server declared and listed in this revision.
        conversation: An open conversation, as the probe requires it.
        permissions: The tools that may be called.
    """

    def __init__(
        self,
        probe: Probe,
        *,
        target: ServerTarget,
        revision: str,
        features: Features,
        permissions: Permissions,
    ) -> None:
        super().__init__(probe.name, [RULES[rule].for_side("server") for rule in probe.rules if rule in RULES], revision)
        self._declared.update(probe.rules)
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
    def timeouts(self) -> Any:
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

    async def open_conversation(
        self, *, client_capabilities: Mapping[str, Any] | None = None, opened: bool = True, judged: bool = True
    ) -> LiveConversation:
        """Open another conversation. It is closed after the probe at the latest.

        Args:
            client_capabilities: The client capabilities to declare.
            opened: Whether to open it in this revision; otherwise nothing is sent yet.
            judged: Whether its messages are judged passively.

        Raises:
            CannotOpen: The server did not open it.
        """
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

    def safe_call(self, *, with_text: bool = False) -> SafeCall:
        """Return a tool that may be called.

        Args:
            with_text: Whether it must have an argument that accepts any text.

        Raises:
            Skip: There is no such tool.
        """
        found = [call for call in self.features.safe_calls(self.permissions) if call.texts or not with_text]
        if not found:
            kind = "with a text argument " if with_text else ""
            raise Skip(no_call(kind))
        return found[0]

    async def echo_call(self) -> SafeCall:
        """Return a tool that may be called and returns a text argument in its result.

        Raises:
            Skip: There is no such tool.
        """
        token = "twopipes-check-echo"  # noqa: S105 - a marker, not a password
        for call in self.features.safe_calls(self.permissions):
            params = call.with_text(token)
            if params is not None:
                response = await self.conversation.request("tools/call", params)
                if token.encode() in response.received[0] and response.result.get("isError") is not True:
                    return call
        raise Skip("no tool that may be called returns a text that it was given; name one with --allow-tool")

    def fixture(self, name: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the params of a call of a tool that test servers have (``boom``, ``slow``, ``ask``).

        Raises:
            Skip: The server has no such tool, or it may not be called.
        """
        for call in self.features.safe_calls(self.permissions):
            if call.name == name:
                return {"name": name, "arguments": dict(call.arguments if arguments is None else arguments)}
        raise Skip(no_such_tool(name))

    async def was_ignored(self, silence: NoResponse) -> bool:
        """Return whether the server answers other requests, but not the one that the probe waited for."""
        return self._last is not None and silence.request_id is not None and await self._last.is_ignored(silence.request_id)

    def quotable(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """Return the lines since the probe began, of the conversation that it opened last."""
        conversation = self._last
        if conversation is None:
            return (), ()
        sent, received = self._begin if conversation is self._conversation else (0, 0)
        return conversation.sent_lines[sent:], [line.raw for line in conversation.received_lines[received:]]

    @property
    def left_after(self) -> float | None:
        """Seconds until the server ended a conversation: the longest one, or ``None``."""
        return max(
            (conversation.left_after for conversation in self._conversations if conversation.left_after is not None), default=None
        )

    @property
    def silence(self) -> float | None:
        """Seconds without any response, if that is at least the timeout for the first response."""
        silences = [conversation.silence for conversation in self._conversations if conversation.left_after is None]
        return max((each for each in silences if each >= self.timeouts.start), default=None)

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
    members = _members(schema)
    required = members.get("required", [])
    properties = _members(members.get("properties"))
    if not isinstance(required, list) or any(key in members for key in ("allOf", "anyOf", "oneOf", "not", "if", "$ref")):
        return None
    found: dict[str, Any] = {}
    for name in required:
        value = _made_up(properties.get(name, True)) if isinstance(name, str) else _UNKNOWN
        if value is _UNKNOWN:
            return None
        found[name] = value
    return found


_UNKNOWN = object()
_SIMPLE = {"string": "text", "boolean": False, "null": None, "array": []}
# Keywords that restrict a value beyond its type. No value is made up for a schema that has one of them.
_NARROWS = {"pattern", "format", "minLength", "maxLength", "minItems", "allOf", "anyOf", "oneOf", "not", "$ref", "multipleOf"}


def _made_up(schema: Any) -> Any:
    if schema is True or schema == {}:
        return "text"
    members = _members(schema)
    for key in ("const", "default"):
        if key in members:
            return members[key]
    if isinstance(members.get("enum"), list) and members["enum"]:
        return members["enum"][0]
    if _NARROWS & members.keys():
        return _UNKNOWN
    kind = members.get("type")
    if isinstance(kind, list):
        return next((made for each in kind if (made := _made_up({**members, "type": each})) is not _UNKNOWN), _UNKNOWN)
    if not isinstance(kind, str):
        return _UNKNOWN
    if kind in {"integer", "number"}:
        return members.get("minimum", min(1, members.get("maximum", 1)))
    if kind == "object":
        made = made_up_arguments(members)
        return _UNKNOWN if made is None else made
    return _SIMPLE.get(kind, _UNKNOWN)


def _is_free_text(schema: Any) -> bool:
    members = _members(schema)
    return members.get("type") == "string" and not ({"enum", "const"} | _NARROWS) & members.keys()


def _members(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
