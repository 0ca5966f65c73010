"""The five revisions of MCP as tables: which revisions have which methods, types and members.

A revision is its date as a string, so revisions can be compared. Each row of a table has a :class:`Span`; a type or a member that
no table lists exists in every revision. A test compares the tables with the official schemas.

The rows about tasks describe 2025-11-25; twopipes does not run tasks.
"""

from __future__ import annotations

from msgspec import Struct

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The revisions with a handshake, in order."""

MODERN = ("2026-07-28",)
"""The revisions without a handshake, in which requests are independent, in order."""

ALL = LEGACY + MODERN
LATEST_LEGACY = LEGACY[-1]
LATEST_MODERN = MODERN[-1]


def is_modern(revision: str) -> bool:
    """Return whether requests of this revision are independent, without a handshake."""
    return revision in MODERN


class Span(Struct, frozen=True):
    """A range of revisions, both ends included; ``until`` is ``None`` if it has no end."""

    since: str = LEGACY[0]
    until: str | None = None

    def has(self, revision: str) -> bool:
        """Return whether the span contains the revision."""
        return self.since <= revision and (self.until is None or revision <= self.until)


ALWAYS = Span()
SINCE_2503 = Span("2025-03-26")
SINCE_2506 = Span("2025-06-18")
SINCE_2511 = Span("2025-11-25")
SINCE_2607 = Span("2026-07-28")
ONLY_2503 = Span("2025-03-26", "2025-03-26")
ONLY_2511 = Span("2025-11-25", "2025-11-25")
UNTIL_2506 = Span(until="2025-06-18")
UNTIL_2511 = Span(until="2025-11-25")
FROM_2506_TO_2511 = Span("2025-06-18", "2025-11-25")
NEVER = Span("9999-12-31")


def _spans(names: dict[Span, str]) -> dict[str, Span]:
    """Return the span of each name, from the names by span, separated by spaces."""
    return {name: span for span, found in names.items() for name in found.split()}


INPUT_METHODS = ("elicitation/create", "sampling/createMessage", "roots/list")
"""The questions that an InputRequiredResult may contain, from 2026-07-28 (MR-03)."""

MAY_ASK_BACK = ("tools/call", "prompts/get", "resources/read")
"""The methods whose result may be an InputRequiredResult, from 2026-07-28 (MR-01, CON-14)."""

CACHEABLE = ("server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read")
"""The methods whose complete results have a lifetime, from 2026-07-28 (CH-01, CON-07)."""

BATCHES = ONLY_2503
"""The revisions that allow an array of messages on one line (CON-20)."""

ERROR_ID_IS_NULL = UNTIL_2506
"""The revisions in which the error for an unreadable request has ``"id":null``; in others the member is omitted (CON-09)."""

CONTENT_TYPES = _spans({ALWAYS: "text image resource", SINCE_2503: "audio", SINCE_2506: "resource_link"})
"""The content blocks of tools and prompts (CT-01)."""

SAMPLING_CONTENT_TYPES = _spans({ALWAYS: "text image", SINCE_2503: "audio", SINCE_2511: "tool_use tool_result"})
"""The content blocks of sampling messages (SA-03)."""

SAMPLING_CONTENT_ARRAYS = SINCE_2511
"""The revisions in which a sampling message may have several blocks (SA-03)."""

FREE_STRUCTURED_CONTENT = SINCE_2607
"""The revisions in which ``structuredContent`` may be any value and ``outputSchema`` any schema (TL-11, TL-12)."""

TYPES = _spans(
    {
        SINCE_2503: "AudioContent ToolAnnotations",
        SINCE_2506: (
            "ResourceLink CompletionContext ElicitParams ElicitResult "
            "ElicitSchema StringSchema NumberSchema IntegerSchema BooleanSchema"
        ),
        SINCE_2511: "Icon ToolUseContent ToolResultContent ToolChoice MultiSelectSchema SelectItems EnumOption",
        SINCE_2607: (
            "DiscoverResult ListenParams SubscriptionFilter AcknowledgedParams SubscriptionsListenResult "
            "InputRequiredResult ElicitRequest CreateMessageRequest ListRootsRequest"
        ),
        ONLY_2511: "ToolExecution ElicitationCompleteParams",
        UNTIL_2511: "InitializeParams InitializeResult SubscribeParams UnsubscribeParams SetLevelParams",
    }
)
"""Types that some revisions do not have. The three input requests are messages in legacy revisions, not parts of a result."""

_META = {"_meta": SINCE_2506}
_TITLED = {"title": SINCE_2506, "icons": SINCE_2511, **_META}
_RESULT = {"resultType": SINCE_2607}
_CACHEABLE = {**_RESULT, "ttlMs": SINCE_2607, "cacheScope": SINCE_2607}
_ANSWERING = {"inputResponses": SINCE_2607, "requestState": SINCE_2607}
_BARE_RESULT = {"resultType": NEVER, "_meta": UNTIL_2511}  # MR-06, MT-07

MEMBERS = {
    "Implementation": {"title": SINCE_2506, "icons": SINCE_2511, "description": SINCE_2511, "websiteUrl": SINCE_2511},
    "Annotations": {"lastModified": SINCE_2506},
    "Tool": {**_TITLED, "annotations": SINCE_2503, "outputSchema": SINCE_2506, "execution": ONLY_2511},
    **dict.fromkeys(("Resource", "ResourceTemplate", "Prompt"), _TITLED),
    "PromptArgument": {"title": SINCE_2506},
    "PromptReference": {"title": SINCE_2506},
    **dict.fromkeys(("Root", "TextContent", "ImageContent", "AudioContent", "EmbeddedResource", "ResourceContents"), _META),
    "ResourceLink": {"icons": SINCE_2511},
    "SamplingMessage": {"_meta": SINCE_2511},
    "ElicitSchema": {"$schema": SINCE_2511},
    "StringSchema": {"oneOf": SINCE_2511, "default": SINCE_2511},
    "NumberSchema": {"default": SINCE_2511},
    "IntegerSchema": {"default": SINCE_2511},
    "ClientCapabilities": {"elicitation": SINCE_2506, "tasks": ONLY_2511, "extensions": SINCE_2607},
    "ServerCapabilities": {"completions": SINCE_2503, "tasks": ONLY_2511, "extensions": SINCE_2607},
    "CallToolParams": {**_ANSWERING, "task": ONLY_2511},
    **dict.fromkeys(("ReadResourceParams", "GetPromptParams"), _ANSWERING),
    "CompleteParams": {"context": SINCE_2506},
    "ProgressParams": {"message": SINCE_2503},
    "CreateMessageParams": {"tools": SINCE_2511, "toolChoice": SINCE_2511, "task": ONLY_2511, "_meta": UNTIL_2511},
    "ElicitParams": {**_spans({SINCE_2511: "mode url", ONLY_2511: "elicitationId task"}), "_meta": UNTIL_2511},
    **dict.fromkeys(("EmptyResult", "InitializeResult", "GetPromptResult", "CompleteResult"), _RESULT),
    **dict.fromkeys(("InputRequiredResult", "SubscriptionsListenResult"), _RESULT),
    **dict.fromkeys(("DiscoverResult", "ReadResourceResult", "ListToolsResult", "ListPromptsResult"), _CACHEABLE),
    **dict.fromkeys(("ListResourcesResult", "ListResourceTemplatesResult"), _CACHEABLE),
    "CallToolResult": {**_RESULT, "structuredContent": SINCE_2506},
    "CreateMessageResult": {"resultType": NEVER},
    **dict.fromkeys(("ElicitResult", "ListRootsResult"), _BARE_RESULT),
}
"""By type: the members, by their JSON names, that some revisions do not have."""

_TASKS = "tasks tasks.list tasks.cancel tasks.requests"
CLIENT_CAPABILITIES = _spans(
    {
        ALWAYS: "roots sampling experimental",
        UNTIL_2511: "roots.listChanged",
        SINCE_2506: "elicitation",
        SINCE_2511: "sampling.context sampling.tools elicitation.form elicitation.url",
        ONLY_2511: _TASKS,
        SINCE_2607: "extensions",
    }
)
"""The capabilities of a client; a detail comes after a dot (section CP of the rules)."""

SERVER_CAPABILITIES = _spans(
    {
        ALWAYS: (
            "tools tools.listChanged prompts prompts.listChanged resources resources.listChanged resources.subscribe "
            "logging experimental"
        ),
        SINCE_2503: "completions",
        ONLY_2511: _TASKS,
        SINCE_2607: "extensions",
    }
)
"""The capabilities of a server; a detail comes after a dot."""

ERROR_CODES = {
    -32700: ALWAYS,
    -32600: ALWAYS,
    -32601: ALWAYS,
    -32602: ALWAYS,
    -32603: ALWAYS,
    -32002: UNTIL_2511,  # resource not found; -32602 later (ER-12, ER-13)
    -32042: ONLY_2511,  # the user must visit URLs first (ER-11)
    -32020: NEVER,  # a header mismatch; only over HTTP (ER-06)
    -32021: SINCE_2607,  # a client capability is missing (ER-10)
    -32022: SINCE_2607,  # the revision is not served (ER-09)
    -1: UNTIL_2511,  # the user refused sampling (ER-15)
}
"""The error codes that are defined for byte streams."""

RESERVED_CODES = range(-32768, -31999)
"""From 2026-07-28, implementations must not define codes in this range (ER-06, ER-07)."""

META_VERSION = "io.modelcontextprotocol/protocolVersion"
META_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
META_CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
META_SERVER_INFO = "io.modelcontextprotocol/serverInfo"
META_LOG_LEVEL = "io.modelcontextprotocol/logLevel"
META_SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
META_PROGRESS_TOKEN = "progressToken"  # noqa: S105 - the name of a key, not a secret
META_RELATED_TASK = "io.modelcontextprotocol/related-task"
META_IMMEDIATE_RESPONSE = "io.modelcontextprotocol/model-immediate-response"

META_KEYS = {
    META_PROGRESS_TOKEN: ALWAYS,
    META_RELATED_TASK: ONLY_2511,
    META_IMMEDIATE_RESPONSE: ONLY_2511,
    META_VERSION: SINCE_2607,
    META_CAPABILITIES: SINCE_2607,
    META_CLIENT_INFO: SINCE_2607,
    META_LOG_LEVEL: SINCE_2607,
    META_SERVER_INFO: SINCE_2607,
    META_SUBSCRIPTION_ID: SINCE_2607,
    "traceparent": SINCE_2607,
    "tracestate": SINCE_2607,
    "baggage": SINCE_2607,
}
"""The keys that the revisions define."""
