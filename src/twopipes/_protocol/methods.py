"""The params and the result of each method."""

from __future__ import annotations

from twopipes._protocol import types as t

PARAMS: dict[str, type[t.Params]] = {
    "initialize": t.InitializeParams,
    "ping": t.EmptyParams,
    "server/discover": t.EmptyParams,
    "tools/list": t.ListParams,
    "tools/call": t.CallToolParams,
    "resources/list": t.ListParams,
    "resources/templates/list": t.ListParams,
    "resources/read": t.ReadResourceParams,
    "resources/subscribe": t.SubscribeParams,
    "resources/unsubscribe": t.UnsubscribeParams,
    "prompts/list": t.ListParams,
    "prompts/get": t.GetPromptParams,
    "completion/complete": t.CompleteParams,
    "logging/setLevel": t.SetLevelParams,
    "subscriptions/listen": t.ListenParams,
    "roots/list": t.EmptyParams,
    "sampling/createMessage": t.CreateMessageParams,
    "elicitation/create": t.ElicitParams,
}
"""The params of every supported request."""

NOTIFICATION_PARAMS: dict[str, type[t.Params]] = {
    "notifications/initialized": t.EmptyParams,
    "notifications/cancelled": t.CancelledParams,
    "notifications/progress": t.ProgressParams,
    "notifications/message": t.LogParams,
    "notifications/tools/list_changed": t.ListChangedParams,
    "notifications/prompts/list_changed": t.ListChangedParams,
    "notifications/resources/list_changed": t.ListChangedParams,
    "notifications/resources/updated": t.ResourceUpdatedParams,
    "notifications/roots/list_changed": t.ListChangedParams,
    "notifications/elicitation/complete": t.ElicitationCompleteParams,
    "notifications/subscriptions/acknowledged": t.AcknowledgedParams,
}
"""The params of every supported notification."""

RESULTS: dict[str, type[t.Result]] = {
    "initialize": t.InitializeResult,
    "ping": t.EmptyResult,
    "server/discover": t.DiscoverResult,
    "tools/list": t.ListToolsResult,
    "tools/call": t.CallToolResult,
    "resources/list": t.ListResourcesResult,
    "resources/templates/list": t.ListResourceTemplatesResult,
    "resources/read": t.ReadResourceResult,
    "resources/subscribe": t.EmptyResult,
    "resources/unsubscribe": t.EmptyResult,
    "prompts/list": t.ListPromptsResult,
    "prompts/get": t.GetPromptResult,
    "completion/complete": t.CompleteResult,
    "logging/setLevel": t.EmptyResult,
    "subscriptions/listen": t.SubscriptionsListenResult,
    "roots/list": t.ListRootsResult,
    "sampling/createMessage": t.CreateMessageResult,
    "elicitation/create": t.ElicitResult,
}
"""The complete result of every request."""
