r"""Probes: what is done to a server to find out whether it keeps a rule, and what they have at hand.

A probe is a coroutine function in the ``probes.py`` of its topic::

    @probe("FR-02", "JR-06")
    async def newlines_travel_as_escapes(case: Case) -> None:
        answer = await case.talk.request(case.harmless, request_id="a\nb")
        case.expect("FR-02", answer.is_result, f"a request with a newline in its id got {answer.told}", about=answer)

It is run once in each revision that it is meant for and that the server speaks.
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
    """A probe of the table; see :func:`probe`."""

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
"""All probes, once :func:`all_probes` has loaded them."""


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
    """Enters a coroutine function into the table of probes.

    Args:
        *rules: The ids of the rules that it judges. What it leaves without a verdict counts as skipped.
        revisions: ``eras``: of the revisions that have one of the rules and that the server speaks, the newest with a handshake and
            the stateless one. ``each``: all of them. ``newest``: one of them, for what no revision changes. Or these.
        opens_own: It opens what conversations it needs by itself, and is given none.
        fresh_conversation: It gets a conversation (a process) of its own, because it spoils it or needs it untouched. Others share one, and what
            one of them finds there is looked at once more in a fresh one before it counts.
        section_only: It shares a conversation with those of its section that are ``apart`` as well, and with no others, because it leaves
            something behind: a level, a list that has changed, a subscription.
        runs_last: Nobody can go on after it: it is the last of a conversation that others may have had before.
        silence_fails: All that it asks must be answered at once, by its rules: a request that the server passes over in silence breaks
            those that have no verdict yet. Elsewhere they are skipped then: whatever calls a tool may take its time.
        judged: Whether what its conversation shows by itself counts. Not where the probe itself breaks rules.
        needs: What there must be, or it is skipped: a capability of the server (``tools``, ``resources.subscribe``), ``process``
            (a process whose end can be watched), ``socket``, ``call`` (a tool that may be called), ``tool:NAME`` (that very tool),
            ``question`` (a tool that may be called and asks its client something).
        client_capabilities: The client capabilities that its conversation declares; none unless given.
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
    """The probes of all sections."""
    load_all("probes")
    return PROBES


def revisions_for(rules: Iterable[Rule], wanted: Revisions, spoken: Sequence[str]) -> list[str]:
    """In which of the spoken revisions something about these rules is tried, in order."""
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
    """A tool that may be called, and with what.

    Attributes:
        name: Of the tool.
        arguments: That fit its schema, as far as can be told from outside.
        tool: As it was listed.
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
        """Whether the tool may also be called with arguments other than these.

        ``--call`` permits one call, not the tool: with another path, say, a tool that writes would change something else.
        """
        return self.why != "--call" or _is_read_only(self.tool)

    @property
    def texts(self) -> list[str]:
        """The names of arguments that take any text, and that may be given another one."""
        if not self.takes_other_arguments:
            return []
        properties = _members(_members(self.tool.get("inputSchema")).get("properties"))
        return [name for name, schema in properties.items() if _is_free_text(schema)]

    def with_text(self, text: str) -> dict[str, Any] | None:
        """The params with this text in an argument that takes any; ``None`` where there is no such argument."""
        return {"name": self.name, "arguments": {**self.arguments, self.texts[0]: text}} if self.texts else None


class Permissions(Struct, frozen=True, kw_only=True):
    """Which tools may be called, in addition to those that declare ``readOnlyHint``.

    Attributes:
        tools: By name.
        calls: By name, with the arguments to use.
    """

    tools: frozenset[str] = frozenset()
    calls: Mapping[str, Mapping[str, Any]] = {}


class Features(Struct, kw_only=True):
    """What a server declared and listed in one revision.

    Attributes:
        capabilities: As declared.
        tools: As listed, over all pages; likewise the others.
        failed: What could not be listed, and why.
    """

    capabilities: dict[str, Any] = {}
    tools: list[dict[str, Any]] = []
    resources: list[dict[str, Any]] = []
    templates: list[dict[str, Any]] = []
    prompts: list[dict[str, Any]] = []
    failed: dict[str, str] = {}

    def has(self, capability: str) -> bool:
        """Tells whether a capability was declared, with a dot before a detail: ``resources.subscribe``."""
        at: Any = self.capabilities
        for key in capability.split("."):
            if not isinstance(at, dict) or key not in at or at[key] is False:
                return False
            at = at[key]
        return True

    def tool(self, name: str) -> dict[str, Any] | None:
        """A tool by its name."""
        return next((each for each in self.tools if each.get("name") == name), None)

    def safe_calls(self, permissions: Permissions) -> list[SafeCall]:
        """The calls that may be made, the ones that were asked for first."""
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
        features: What it declared and listed in this revision.
        conversation: An open conversation, as the probe wants it.
        permissions: What may be called.
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
        """Gives it the conversation that it begins with."""
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
        """How long to wait for what."""
        return self.target.timeouts

    @property
    def is_modern(self) -> bool:
        """Whether this is a revision without a handshake."""
        return self.revision in MODERN

    @property
    def harmless(self) -> str:
        """A method that this server answers with a result, and that changes nothing.

        Every server should answer ``ping``; one that does not breaks that rule, and must not be blamed for it by all others.
        """
        return self.target.harmless.get(self.revision) or ("server/discover" if self.is_modern else "ping")

    async def open_conversation(
        self, *, client_capabilities: Mapping[str, Any] | None = None, opened: bool = True, judged: bool = True
    ) -> LiveConversation:
        """One more conversation, closed after the probe at the latest.

        Args:
            client_capabilities: The client capabilities to declare.
            opened: Whether it is opened in this revision; otherwise nothing was said on it yet.
            judged: Whether what it shows by itself counts.

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
        """A conversation that declares this: a fresh one after a handshake; its own, where each request declares it anew."""
        if not self.is_modern:
            return await self.open_conversation(client_capabilities=client_capabilities)
        self.conversation.client_capabilities = client_capabilities
        return self.conversation

    def safe_call(self, *, with_text: bool = False) -> SafeCall:
        """A tool that may be called.

        Args:
            with_text: One that has an argument which takes any text.

        Raises:
            Skip: There is none, so that the probe cannot go on.
        """
        found = [call for call in self.features.safe_calls(self.permissions) if call.texts or not with_text]
        if not found:
            kind = "with a text argument " if with_text else ""
            raise Skip(no_call(kind))
        return found[0]

    async def echo_call(self) -> SafeCall:
        """A tool that may be called and gives a text argument back in its result.

        Raises:
            Skip: None does.
        """
        token = "twopipes-check-echo"  # noqa: S105 - a word to recognise
        for call in self.features.safe_calls(self.permissions):
            params = call.with_text(token)
            if params is not None:
                response = await self.conversation.request("tools/call", params)
                if token.encode() in response.received[0] and response.result.get("isError") is not True:
                    return call
        raise Skip("no tool that may be called gives a text back that it was given; name one by --allow-tool")

    def fixture(self, name: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The params to call one tool by its name, as test servers have it (``boom``, ``slow``, ``ask``), if it may be called.

        Raises:
            Skip: The server has no such tool, or it may not be called.
        """
        for call in self.features.safe_calls(self.permissions):
            if call.name == name:
                return {"name": name, "arguments": dict(call.arguments if arguments is None else arguments)}
        raise Skip(no_such_tool(name))

    async def was_ignored(self, silence: NoResponse) -> bool:
        """Tells whether the server lives and answers others, but not the request that the probe has waited for in vain."""
        return self._last is not None and silence.request_id is not None and await self._last.is_ignored(silence.request_id)

    def quotable(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """What was said since the probe began, on the conversation that it opened last."""
        conversation = self._last
        if conversation is None:
            return (), ()
        sent, received = self._begin if conversation is self._conversation else (0, 0)
        return conversation.sent_lines[sent:], [line.raw for line in conversation.received_lines[received:]]

    @property
    def left_after(self) -> float | None:
        """How many seconds a conversation lasted that the server ended; the longest one, or ``None``."""
        return max(
            (conversation.left_after for conversation in self._conversations if conversation.left_after is not None), default=None
        )

    @property
    def silence(self) -> float | None:
        """For how many seconds the server gave no answer at all, where that is longer than a first answer is waited for."""
        silences = [conversation.silence for conversation in self._conversations if conversation.left_after is None]
        return max((each for each in silences if each >= self.timeouts.start), default=None)

    @property
    def _conversations(self) -> list[LiveConversation]:
        return [*self._opened, *([self._conversation] if self._conversation is not None else [])]

    async def close(self) -> None:
        """Closes the conversations that the probe opened."""
        for conversation in self._opened:
            with suppress(TimeoutError):
                await conversation.close()


def no_call(kind: str = "") -> str:
    """The reason for skipping what takes a call of a tool; ``kind`` says which sort of tool it takes."""
    return f"no tool {kind}may be called: none declares readOnlyHint; name one by --allow-tool or --call"


def no_such_tool(name: str) -> str:
    """The reason for skipping what takes a tool by a certain name."""
    return f"the server has no tool {name!r} that may be called (see --allow-tool)"


def made_up_arguments(schema: Any) -> dict[str, Any] | None:
    """Arguments that a schema should accept: only what it requires; ``None`` where that cannot be told."""
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
# What a text, a number or an array must obey beyond its type; where any of it is there, nothing is made up.
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
