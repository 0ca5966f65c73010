"""The five revisions of MCP as tables: which revisions have which methods, types and members.

A revision is its date as a string, so revisions can be compared. Each row of a table has a :class:`Span`; a type or a member that
no table lists exists in every revision. A test compares the tables with the official schemas.

The rows about tasks describe 2025-11-25; twopipes does not run tasks.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The revisions with a handshake, in order."""

MODERN = ("2026-07-28",)
"""The revisions without a handshake, in which requests are independent, in order."""

ALL = LEGACY + MODERN
LATEST_LEGACY = LEGACY[-1]
LATEST_MODERN = MODERN[-1]

Sender = Literal["client", "server", "both"]


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


class MethodRow(Struct, frozen=True):
    """A request or a notification.

    Attributes:
        method: Its name on the wire.
        sender: Who sends it.
        span: In which revisions.
        capability: The capability that the receiver must have declared, such as ``resources.subscribe``, or ``None``.
    """

    method: str
    sender: Sender
    span: Span = ALWAYS
    capability: str | None = None


REQUESTS = (
    MethodRow("initialize", "client", UNTIL_2511),
    MethodRow("ping", "both", UNTIL_2511),
    MethodRow("server/discover", "client", SINCE_2607),
    MethodRow("tools/list", "client", ALWAYS, "tools"),
    MethodRow("tools/call", "client", ALWAYS, "tools"),
    MethodRow("resources/list", "client", ALWAYS, "resources"),
    MethodRow("resources/templates/list", "client", ALWAYS, "resources"),
    MethodRow("resources/read", "client", ALWAYS, "resources"),
    MethodRow("resources/subscribe", "client", UNTIL_2511, "resources.subscribe"),
    MethodRow("resources/unsubscribe", "client", UNTIL_2511, "resources.subscribe"),
    MethodRow("prompts/list", "client", ALWAYS, "prompts"),
    MethodRow("prompts/get", "client", ALWAYS, "prompts"),
    MethodRow("completion/complete", "client", ALWAYS, "completions"),  # 2024-11-05 has the method but not the capability (CP-01)
    MethodRow("logging/setLevel", "client", UNTIL_2511, "logging"),
    MethodRow("subscriptions/listen", "client", SINCE_2607),
    MethodRow("roots/list", "server", UNTIL_2511, "roots"),
    MethodRow("sampling/createMessage", "server", UNTIL_2511, "sampling"),
    MethodRow("elicitation/create", "server", FROM_2506_TO_2511, "elicitation"),
    MethodRow("tasks/get", "both", ONLY_2511, "tasks"),
    MethodRow("tasks/result", "both", ONLY_2511, "tasks"),
    MethodRow("tasks/list", "both", ONLY_2511, "tasks.list"),
    MethodRow("tasks/cancel", "both", ONLY_2511, "tasks.cancel"),
)

NOTIFICATIONS = (
    MethodRow("notifications/initialized", "client", UNTIL_2511),
    MethodRow("notifications/cancelled", "both"),
    MethodRow("notifications/progress", "both", UNTIL_2511),
    MethodRow("notifications/progress", "server", SINCE_2607),  # PR-05
    MethodRow("notifications/message", "server"),
    MethodRow("notifications/tools/list_changed", "server"),
    MethodRow("notifications/prompts/list_changed", "server"),
    MethodRow("notifications/resources/list_changed", "server"),
    MethodRow("notifications/resources/updated", "server"),
    MethodRow("notifications/roots/list_changed", "client", UNTIL_2511),
    MethodRow("notifications/elicitation/complete", "server", ONLY_2511),
    MethodRow("notifications/tasks/status", "both", ONLY_2511),
    MethodRow("notifications/subscriptions/acknowledged", "server", SINCE_2607),
)

NEEDED_CAPABILITIES = {row.method: tuple(row.capability.split(".")) for row in REQUESTS if row.capability}
"""The capability that the receiver of a request must have declared: ``("resources", "subscribe")``. Other methods need none."""

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

CONTENT_TYPES = {
    "text": ALWAYS,
    "image": ALWAYS,
    "resource": ALWAYS,
    "audio": SINCE_2503,
    "resource_link": SINCE_2506,
}
"""The content blocks of tools and prompts (CT-01)."""

SAMPLING_CONTENT_TYPES = {
    "text": ALWAYS,
    "image": ALWAYS,
    "audio": SINCE_2503,
    "tool_use": SINCE_2511,
    "tool_result": SINCE_2511,
}
"""The content blocks of sampling messages (SA-03)."""

SAMPLING_CONTENT_ARRAYS = SINCE_2511
"""The revisions in which a sampling message may have several blocks (SA-03)."""

FREE_STRUCTURED_CONTENT = SINCE_2607
"""The revisions in which ``structuredContent`` may be any value and ``outputSchema`` any schema (TL-11, TL-12)."""

TYPES = {
    "AudioContent": SINCE_2503,
    "ResourceLink": SINCE_2506,
    "ToolUseContent": SINCE_2511,
    "ToolResultContent": SINCE_2511,
    "Icon": SINCE_2511,
    "ToolAnnotations": SINCE_2503,
    "ToolExecution": ONLY_2511,
    "ToolChoice": SINCE_2511,
    "CompletionContext": SINCE_2506,
    "SubscriptionFilter": SINCE_2607,
    "ElicitSchema": SINCE_2506,
    "StringSchema": SINCE_2506,
    "NumberSchema": SINCE_2506,
    "IntegerSchema": SINCE_2506,
    "BooleanSchema": SINCE_2506,
    "MultiSelectSchema": SINCE_2511,
    "SelectItems": SINCE_2511,
    "EnumOption": SINCE_2511,
    "ElicitRequest": SINCE_2607,
    "CreateMessageRequest": SINCE_2607,
    "ListRootsRequest": SINCE_2607,
    "InitializeParams": UNTIL_2511,
    "SubscribeParams": UNTIL_2511,
    "UnsubscribeParams": UNTIL_2511,
    "SetLevelParams": UNTIL_2511,
    "ListenParams": SINCE_2607,
    "AcknowledgedParams": SINCE_2607,
    "ElicitParams": SINCE_2506,
    "ElicitationCompleteParams": ONLY_2511,
    "InitializeResult": UNTIL_2511,
    "DiscoverResult": SINCE_2607,
    "ElicitResult": SINCE_2506,
    "InputRequiredResult": SINCE_2607,
    "SubscriptionsListenResult": SINCE_2607,
}
"""Types that some revisions do not have. The three input requests are messages in legacy revisions, not parts of a result."""

_TITLED = {"title": SINCE_2506, "icons": SINCE_2511, "_meta": SINCE_2506}
_RESULT = {"resultType": SINCE_2607}
_CACHEABLE = {**_RESULT, "ttlMs": SINCE_2607, "cacheScope": SINCE_2607}
_ANSWERING = {"inputResponses": SINCE_2607, "requestState": SINCE_2607}
_BARE_RESULT = {"resultType": NEVER, "_meta": UNTIL_2511}  # MR-06, MT-07

MEMBERS = {
    "Implementation": {"title": SINCE_2506, "icons": SINCE_2511, "description": SINCE_2511, "websiteUrl": SINCE_2511},
    "Annotations": {"lastModified": SINCE_2506},
    "Tool": {**_TITLED, "annotations": SINCE_2503, "outputSchema": SINCE_2506, "execution": ONLY_2511},
    "Resource": _TITLED,
    "ResourceTemplate": _TITLED,
    "Prompt": _TITLED,
    "PromptArgument": {"title": SINCE_2506},
    "PromptReference": {"title": SINCE_2506},
    "Root": {"_meta": SINCE_2506},
    "TextContent": {"_meta": SINCE_2506},
    "ImageContent": {"_meta": SINCE_2506},
    "AudioContent": {"_meta": SINCE_2506},
    "EmbeddedResource": {"_meta": SINCE_2506},
    "ResourceContents": {"_meta": SINCE_2506},
    "ResourceLink": {"icons": SINCE_2511},
    "SamplingMessage": {"_meta": SINCE_2511},
    "ElicitSchema": {"$schema": SINCE_2511},
    "StringSchema": {"oneOf": SINCE_2511, "default": SINCE_2511},
    "NumberSchema": {"default": SINCE_2511},
    "IntegerSchema": {"default": SINCE_2511},
    "ClientCapabilities": {"elicitation": SINCE_2506, "tasks": ONLY_2511, "extensions": SINCE_2607},
    "ServerCapabilities": {"completions": SINCE_2503, "tasks": ONLY_2511, "extensions": SINCE_2607},
    "CallToolParams": {**_ANSWERING, "task": ONLY_2511},
    "ReadResourceParams": _ANSWERING,
    "GetPromptParams": _ANSWERING,
    "CompleteParams": {"context": SINCE_2506},
    "ProgressParams": {"message": SINCE_2503},
    "CreateMessageParams": {"tools": SINCE_2511, "toolChoice": SINCE_2511, "task": ONLY_2511, "_meta": UNTIL_2511},
    "ElicitParams": {
        "mode": SINCE_2511,
        "url": SINCE_2511,
        "elicitationId": ONLY_2511,
        "task": ONLY_2511,
        "_meta": UNTIL_2511,
    },
    "EmptyResult": _RESULT,
    "InitializeResult": _RESULT,
    "DiscoverResult": _CACHEABLE,
    "ListToolsResult": _CACHEABLE,
    "ListResourcesResult": _CACHEABLE,
    "ListResourceTemplatesResult": _CACHEABLE,
    "ListPromptsResult": _CACHEABLE,
    "ReadResourceResult": _CACHEABLE,
    "GetPromptResult": _RESULT,
    "CompleteResult": _RESULT,
    "CallToolResult": {**_RESULT, "structuredContent": SINCE_2506},
    "InputRequiredResult": _RESULT,
    "SubscriptionsListenResult": _RESULT,
    "CreateMessageResult": {"resultType": NEVER},
    "ElicitResult": _BARE_RESULT,
    "ListRootsResult": _BARE_RESULT,
}
"""By type: the members, by their JSON names, that some revisions do not have."""

CLIENT_CAPABILITIES = {
    "roots": ALWAYS,
    "roots.listChanged": UNTIL_2511,
    "sampling": ALWAYS,
    "sampling.context": SINCE_2511,
    "sampling.tools": SINCE_2511,
    "elicitation": SINCE_2506,
    "elicitation.form": SINCE_2511,
    "elicitation.url": SINCE_2511,
    "tasks": ONLY_2511,
    "tasks.list": ONLY_2511,
    "tasks.cancel": ONLY_2511,
    "tasks.requests": ONLY_2511,
    "experimental": ALWAYS,
    "extensions": SINCE_2607,
}
"""The capabilities of a client; a detail comes after a dot (section CP of the rules)."""

SERVER_CAPABILITIES = {
    "tools": ALWAYS,
    "tools.listChanged": ALWAYS,
    "prompts": ALWAYS,
    "prompts.listChanged": ALWAYS,
    "resources": ALWAYS,
    "resources.listChanged": ALWAYS,
    "resources.subscribe": ALWAYS,
    "logging": ALWAYS,
    "completions": SINCE_2503,
    "tasks": ONLY_2511,
    "tasks.list": ONLY_2511,
    "tasks.cancel": ONLY_2511,
    "tasks.requests": ONLY_2511,
    "experimental": ALWAYS,
    "extensions": SINCE_2607,
}
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
