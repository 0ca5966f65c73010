"""twopipes: the Model Context Protocol over stdio, for Python.

The public names are loaded when they are first used: ``import twopipes`` alone costs next to nothing.
"""

TYPE_CHECKING = False  # what type checkers read as true; importing typing would cost more than all the rest here
if TYPE_CHECKING:
    from twopipes._client.caller import InputRequired
    from twopipes._client.client import Client
    from twopipes._client.connect import connect
    from twopipes._client.era_cache import EraCache
    from twopipes._client.input_handlers import Elicitation, Sampling
    from twopipes._client.results import CallResult, Validation
    from twopipes._client.stray_output import StrayOutput
    from twopipes._client.subscription import Subscription
    from twopipes._process.command import ServerCommand
    from twopipes._process.exit_status import ExitStatus
    from twopipes._process.shutdown import ShutdownPlan, ShutdownReport
    from twopipes._process.stderr import StderrLine
    from twopipes._protocol.base import Result
    from twopipes._protocol.content import (
        Annotations,
        AudioContent,
        EmbeddedResource,
        Icon,
        ImageContent,
        ResourceContents,
        ResourceLink,
        TextContent,
        ToolResultContent,
        ToolUseContent,
        UnknownContent,
    )
    from twopipes._protocol.features import (
        ClientCapabilities,
        Completion,
        Implementation,
        Prompt,
        PromptArgument,
        PromptMessage,
        Resource,
        ResourceTemplate,
        Root,
        ServerCapabilities,
        SubscriptionFilter,
        Tool,
        ToolAnnotations,
    )
    from twopipes._protocol.input_requests import (
        CreateMessageResult,
        ElicitResult,
        ModelHint,
        ModelPreferences,
        SamplingMessage,
        ToolChoice,
    )
    from twopipes._protocol.params import LogParams, ProgressParams
    from twopipes._protocol.rejections import FormRejected, SignatureRejected
    from twopipes._protocol.results import CallToolResult, GetPromptResult, ReadResourceResult
    from twopipes._server.app import Server
    from twopipes._server.context import CancelToken, ClientView, Context, Elicited
    from twopipes._server.results import Audio, Image, ToolResult
    from twopipes._session.subscriptions import Change
    from twopipes._version import __version__
    from twopipes.errors import (
        CapabilityMissing,
        ChannelBroken,
        ChannelClosed,
        ClientClosed,
        ConnectionLost,
        InternalError,
        InvalidOutput,
        InvalidParams,
        InvalidRequest,
        ListenFailed,
        LocalProtocolError,
        McpError,
        MethodNotFound,
        NotFound,
        OpeningFailed,
        QuestionFailed,
        RemoteProtocolError,
        RequestCancelled,
        RequestTimedOut,
        ServerExited,
        StartFailed,
        ToolError,
        TwopipesError,
        UnsupportedRevision,
        UrlsRequired,
        UserRefused,
    )
    from twopipes.outcome import Err, Ok, attempt
    from twopipes.settings import (
        InputPolicy,
        Limits,
        RestartPolicy,
        ServerSettings,
        Timeouts,
    )

__all__ = [
    "Annotations",
    "Audio",
    "AudioContent",
    "CallResult",
    "CallToolResult",
    "CancelToken",
    "CapabilityMissing",
    "Change",
    "ChannelBroken",
    "ChannelClosed",
    "Client",
    "ClientCapabilities",
    "ClientClosed",
    "ClientView",
    "Completion",
    "ConnectionLost",
    "Context",
    "CreateMessageResult",
    "ElicitResult",
    "Elicitation",
    "Elicited",
    "EmbeddedResource",
    "EraCache",
    "Err",
    "ExitStatus",
    "FormRejected",
    "GetPromptResult",
    "Icon",
    "Image",
    "ImageContent",
    "Implementation",
    "InputPolicy",
    "InputRequired",
    "InternalError",
    "InvalidOutput",
    "InvalidParams",
    "InvalidRequest",
    "Limits",
    "ListenFailed",
    "LocalProtocolError",
    "LogParams",
    "McpError",
    "MethodNotFound",
    "ModelHint",
    "ModelPreferences",
    "NotFound",
    "Ok",
    "OpeningFailed",
    "ProgressParams",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
    "QuestionFailed",
    "ReadResourceResult",
    "RemoteProtocolError",
    "RequestCancelled",
    "RequestTimedOut",
    "Resource",
    "ResourceContents",
    "ResourceLink",
    "ResourceTemplate",
    "RestartPolicy",
    "Result",
    "Root",
    "Sampling",
    "SamplingMessage",
    "Server",
    "ServerCapabilities",
    "ServerCommand",
    "ServerExited",
    "ServerSettings",
    "ShutdownPlan",
    "ShutdownReport",
    "SignatureRejected",
    "StartFailed",
    "StderrLine",
    "StrayOutput",
    "Subscription",
    "SubscriptionFilter",
    "TextContent",
    "Timeouts",
    "Tool",
    "ToolAnnotations",
    "ToolChoice",
    "ToolError",
    "ToolResult",
    "ToolResultContent",
    "ToolUseContent",
    "TwopipesError",
    "UnknownContent",
    "UnsupportedRevision",
    "UrlsRequired",
    "UserRefused",
    "Validation",
    "__version__",
    "attempt",
    "connect",
]


# Where each public name lives. The imports above say the same to type checkers; a test compares the two.
_HOMES = {
    "__version__": "twopipes._version",
    "InputRequired": "twopipes._client.caller",
    "Client": "twopipes._client.client",
    "connect": "twopipes._client.connect",
    "StrayOutput": "twopipes._client.stray_output",
    "Elicitation": "twopipes._client.input_handlers",
    "Sampling": "twopipes._client.input_handlers",
    "CallResult": "twopipes._client.results",
    "Validation": "twopipes._client.results",
    "Subscription": "twopipes._client.subscription",
    "EraCache": "twopipes._client.era_cache",
    "CapabilityMissing": "twopipes.errors",
    "ChannelBroken": "twopipes.errors",
    "ChannelClosed": "twopipes.errors",
    "ClientClosed": "twopipes.errors",
    "ConnectionLost": "twopipes.errors",
    "InternalError": "twopipes.errors",
    "InvalidOutput": "twopipes.errors",
    "InvalidParams": "twopipes.errors",
    "InvalidRequest": "twopipes.errors",
    "ListenFailed": "twopipes.errors",
    "LocalProtocolError": "twopipes.errors",
    "McpError": "twopipes.errors",
    "MethodNotFound": "twopipes.errors",
    "NotFound": "twopipes.errors",
    "OpeningFailed": "twopipes.errors",
    "QuestionFailed": "twopipes.errors",
    "RemoteProtocolError": "twopipes.errors",
    "RequestCancelled": "twopipes.errors",
    "RequestTimedOut": "twopipes.errors",
    "ServerExited": "twopipes.errors",
    "StartFailed": "twopipes.errors",
    "ToolError": "twopipes.errors",
    "TwopipesError": "twopipes.errors",
    "UnsupportedRevision": "twopipes.errors",
    "UrlsRequired": "twopipes.errors",
    "UserRefused": "twopipes.errors",
    "CreateMessageResult": "twopipes._protocol.input_requests",
    "ElicitResult": "twopipes._protocol.input_requests",
    "ModelHint": "twopipes._protocol.input_requests",
    "ModelPreferences": "twopipes._protocol.input_requests",
    "SamplingMessage": "twopipes._protocol.input_requests",
    "ToolChoice": "twopipes._protocol.input_requests",
    "Result": "twopipes._protocol.base",
    "Annotations": "twopipes._protocol.content",
    "AudioContent": "twopipes._protocol.content",
    "EmbeddedResource": "twopipes._protocol.content",
    "Icon": "twopipes._protocol.content",
    "ImageContent": "twopipes._protocol.content",
    "ResourceContents": "twopipes._protocol.content",
    "ResourceLink": "twopipes._protocol.content",
    "TextContent": "twopipes._protocol.content",
    "ToolResultContent": "twopipes._protocol.content",
    "ToolUseContent": "twopipes._protocol.content",
    "UnknownContent": "twopipes._protocol.content",
    "ClientCapabilities": "twopipes._protocol.features",
    "Completion": "twopipes._protocol.features",
    "Implementation": "twopipes._protocol.features",
    "Prompt": "twopipes._protocol.features",
    "PromptArgument": "twopipes._protocol.features",
    "PromptMessage": "twopipes._protocol.features",
    "Resource": "twopipes._protocol.features",
    "ResourceTemplate": "twopipes._protocol.features",
    "Root": "twopipes._protocol.features",
    "ServerCapabilities": "twopipes._protocol.features",
    "SubscriptionFilter": "twopipes._protocol.features",
    "Tool": "twopipes._protocol.features",
    "ToolAnnotations": "twopipes._protocol.features",
    "LogParams": "twopipes._protocol.params",
    "ProgressParams": "twopipes._protocol.params",
    "FormRejected": "twopipes._protocol.rejections",
    "SignatureRejected": "twopipes._protocol.rejections",
    "CallToolResult": "twopipes._protocol.results",
    "GetPromptResult": "twopipes._protocol.results",
    "ReadResourceResult": "twopipes._protocol.results",
    "Err": "twopipes.outcome",
    "Ok": "twopipes.outcome",
    "attempt": "twopipes.outcome",
    "ServerCommand": "twopipes._process.command",
    "ExitStatus": "twopipes._process.exit_status",
    "ShutdownPlan": "twopipes._process.shutdown",
    "ShutdownReport": "twopipes._process.shutdown",
    "StderrLine": "twopipes._process.stderr",
    "Server": "twopipes._server.app",
    "CancelToken": "twopipes._server.context",
    "ClientView": "twopipes._server.context",
    "Context": "twopipes._server.context",
    "Elicited": "twopipes._server.context",
    "Audio": "twopipes._server.results",
    "Image": "twopipes._server.results",
    "ToolResult": "twopipes._server.results",
    "Change": "twopipes._session.subscriptions",
    "Limits": "twopipes.settings",
    "InputPolicy": "twopipes.settings",
    "RestartPolicy": "twopipes.settings",
    "ServerSettings": "twopipes.settings",
    "Timeouts": "twopipes.settings",
}


# A type checker that saw __getattr__ would take every misspelt name for a good one.
if not TYPE_CHECKING:  # pragma: no branch

    def __getattr__(name):  # noqa: ANN001, ANN202
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module  # noqa: PLC0415

        value = getattr(import_module(home), name)
        globals()[name] = value  # found without this function from now on
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
