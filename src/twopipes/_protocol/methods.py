"""The requests and notifications of the five revisions, with the types of their params and results."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from twopipes._protocol import types as t
from twopipes._protocol.revisions import ALWAYS, FROM_2506_TO_2511, ONLY_2511, SINCE_2607, UNTIL_2511, Span


class MethodRow(Struct, frozen=True):
    """A request or a notification."""

    method: str
    sender: Literal["client", "server", "both"]
    params: type[t.Params] | None = None  # None if twopipes does not support it
    result: type[t.Result] | None = None
    span: Span = ALWAYS
    capability: str | None = None  # which the receiver must have declared, such as "resources.subscribe"


REQUESTS = (
    MethodRow("initialize", "client", t.InitializeParams, t.InitializeResult, UNTIL_2511),
    MethodRow("ping", "both", t.EmptyParams, t.EmptyResult, UNTIL_2511),
    MethodRow("server/discover", "client", t.EmptyParams, t.DiscoverResult, SINCE_2607),
    MethodRow("tools/list", "client", t.ListParams, t.ListToolsResult, ALWAYS, "tools"),
    MethodRow("tools/call", "client", t.CallToolParams, t.CallToolResult, ALWAYS, "tools"),
    MethodRow("resources/list", "client", t.ListParams, t.ListResourcesResult, ALWAYS, "resources"),
    MethodRow("resources/templates/list", "client", t.ListParams, t.ListResourceTemplatesResult, ALWAYS, "resources"),
    MethodRow("resources/read", "client", t.ReadResourceParams, t.ReadResourceResult, ALWAYS, "resources"),
    MethodRow("resources/subscribe", "client", t.SubscribeParams, t.EmptyResult, UNTIL_2511, "resources.subscribe"),
    MethodRow("resources/unsubscribe", "client", t.UnsubscribeParams, t.EmptyResult, UNTIL_2511, "resources.subscribe"),
    MethodRow("prompts/list", "client", t.ListParams, t.ListPromptsResult, ALWAYS, "prompts"),
    MethodRow("prompts/get", "client", t.GetPromptParams, t.GetPromptResult, ALWAYS, "prompts"),
    # 2024-11-05 has the method but not the capability (CP-01).
    MethodRow("completion/complete", "client", t.CompleteParams, t.CompleteResult, ALWAYS, "completions"),
    MethodRow("logging/setLevel", "client", t.SetLevelParams, t.EmptyResult, UNTIL_2511, "logging"),
    MethodRow("subscriptions/listen", "client", t.ListenParams, t.SubscriptionsListenResult, SINCE_2607),
    MethodRow("roots/list", "server", t.EmptyParams, t.ListRootsResult, UNTIL_2511, "roots"),
    MethodRow("sampling/createMessage", "server", t.CreateMessageParams, t.CreateMessageResult, UNTIL_2511, "sampling"),
    MethodRow("elicitation/create", "server", t.ElicitParams, t.ElicitResult, FROM_2506_TO_2511, "elicitation"),
    MethodRow("tasks/get", "both", span=ONLY_2511, capability="tasks"),
    MethodRow("tasks/result", "both", span=ONLY_2511, capability="tasks"),
    MethodRow("tasks/list", "both", span=ONLY_2511, capability="tasks.list"),
    MethodRow("tasks/cancel", "both", span=ONLY_2511, capability="tasks.cancel"),
)

NOTIFICATIONS = (
    MethodRow("notifications/initialized", "client", t.EmptyParams, span=UNTIL_2511),
    MethodRow("notifications/cancelled", "both", t.CancelledParams),
    MethodRow("notifications/progress", "both", t.ProgressParams, span=UNTIL_2511),
    MethodRow("notifications/progress", "server", t.ProgressParams, span=SINCE_2607),  # PR-05
    MethodRow("notifications/message", "server", t.LogParams),
    MethodRow("notifications/tools/list_changed", "server", t.ListChangedParams),
    MethodRow("notifications/prompts/list_changed", "server", t.ListChangedParams),
    MethodRow("notifications/resources/list_changed", "server", t.ListChangedParams),
    MethodRow("notifications/resources/updated", "server", t.ResourceUpdatedParams),
    MethodRow("notifications/roots/list_changed", "client", t.ListChangedParams, span=UNTIL_2511),
    MethodRow("notifications/elicitation/complete", "server", t.ElicitationCompleteParams, span=ONLY_2511),
    MethodRow("notifications/tasks/status", "both", span=ONLY_2511),
    MethodRow("notifications/subscriptions/acknowledged", "server", t.AcknowledgedParams, span=SINCE_2607),
)

PARAMS = {row.method: row.params for row in REQUESTS if row.params}
RESULTS = {row.method: row.result for row in REQUESTS if row.result}
NOTIFICATION_PARAMS = {row.method: row.params for row in NOTIFICATIONS if row.params}

KNOWN_METHODS = frozenset(row.method for row in REQUESTS)
"""The requests of any revision, also those that twopipes does not support."""

NEEDED_CAPABILITIES = {row.method: tuple(row.capability.split(".")) for row in REQUESTS if row.capability}
"""The capability that the receiver of a request must have declared: ``("resources", "subscribe")``. Other methods need none."""
