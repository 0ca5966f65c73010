"""twopipes: the Model Context Protocol over stdio, for Python.

The public names are loaded when they are first used: ``import twopipes`` alone costs next to nothing.
"""

TYPE_CHECKING = False  # what type checkers read as true; importing typing would cost more than all the rest here
if TYPE_CHECKING:
    from twopipes.client.caller import InputRequired
    from twopipes.client.client import Client
    from twopipes.client.connect import connect
    from twopipes.client.noise import Stray
    from twopipes.client.questions import Elicitation, Sampling
    from twopipes.client.results import CallResult, Validation
    from twopipes.client.subscription import Subscription
    from twopipes.client.verdicts import VerdictMemory
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
    from twopipes.mcp.asking import CreateMessageResult, ElicitResult, ModelHint, ModelPreferences, SamplingMessage, ToolChoice
    from twopipes.mcp.base import Result
    from twopipes.mcp.content import (
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
    from twopipes.mcp.features import (
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
    from twopipes.mcp.params import LogParams, ProgressParams
    from twopipes.mcp.rejections import FormRejected, SignatureRejected
    from twopipes.mcp.results import CallToolResult, GetPromptResult, ReadResourceResult
    from twopipes.outcome import Err, Ok, attempt
    from twopipes.process.command import ServerCommand
    from twopipes.process.exit_status import ExitStatus
    from twopipes.process.shutdown import ShutdownPlan, ShutdownReport
    from twopipes.process.stderr import StderrLine
    from twopipes.server.app import Server
    from twopipes.server.context import CancelToken, ClientView, Context, Elicited
    from twopipes.server.returned import Audio, Image, ToolResult
    from twopipes.session.subscriptions import Change
    from twopipes.settings import (
        Limits,
        QuestionPolicy,
        RestartPolicy,
        ServerSettings,
        Timeouts,
    )
    from twopipes.version import __version__

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
    "Err",
    "ExitStatus",
    "FormRejected",
    "GetPromptResult",
    "Icon",
    "Image",
    "ImageContent",
    "Implementation",
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
    "QuestionPolicy",
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
    "Stray",
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
    "VerdictMemory",
    "__version__",
    "attempt",
    "connect",
]


# Where each public name lives. The imports above say the same to type checkers; a test compares the two.
_HOMES = {
    "__version__": "twopipes.version",
    "InputRequired": "twopipes.client.caller",
    "Client": "twopipes.client.client",
    "connect": "twopipes.client.connect",
    "Stray": "twopipes.client.noise",
    "Elicitation": "twopipes.client.questions",
    "Sampling": "twopipes.client.questions",
    "CallResult": "twopipes.client.results",
    "Validation": "twopipes.client.results",
    "Subscription": "twopipes.client.subscription",
    "VerdictMemory": "twopipes.client.verdicts",
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
    "CreateMessageResult": "twopipes.mcp.asking",
    "ElicitResult": "twopipes.mcp.asking",
    "ModelHint": "twopipes.mcp.asking",
    "ModelPreferences": "twopipes.mcp.asking",
    "SamplingMessage": "twopipes.mcp.asking",
    "ToolChoice": "twopipes.mcp.asking",
    "Result": "twopipes.mcp.base",
    "Annotations": "twopipes.mcp.content",
    "AudioContent": "twopipes.mcp.content",
    "EmbeddedResource": "twopipes.mcp.content",
    "Icon": "twopipes.mcp.content",
    "ImageContent": "twopipes.mcp.content",
    "ResourceContents": "twopipes.mcp.content",
    "ResourceLink": "twopipes.mcp.content",
    "TextContent": "twopipes.mcp.content",
    "ToolResultContent": "twopipes.mcp.content",
    "ToolUseContent": "twopipes.mcp.content",
    "UnknownContent": "twopipes.mcp.content",
    "ClientCapabilities": "twopipes.mcp.features",
    "Completion": "twopipes.mcp.features",
    "Implementation": "twopipes.mcp.features",
    "Prompt": "twopipes.mcp.features",
    "PromptArgument": "twopipes.mcp.features",
    "PromptMessage": "twopipes.mcp.features",
    "Resource": "twopipes.mcp.features",
    "ResourceTemplate": "twopipes.mcp.features",
    "Root": "twopipes.mcp.features",
    "ServerCapabilities": "twopipes.mcp.features",
    "SubscriptionFilter": "twopipes.mcp.features",
    "Tool": "twopipes.mcp.features",
    "ToolAnnotations": "twopipes.mcp.features",
    "LogParams": "twopipes.mcp.params",
    "ProgressParams": "twopipes.mcp.params",
    "FormRejected": "twopipes.mcp.rejections",
    "SignatureRejected": "twopipes.mcp.rejections",
    "CallToolResult": "twopipes.mcp.results",
    "GetPromptResult": "twopipes.mcp.results",
    "ReadResourceResult": "twopipes.mcp.results",
    "Err": "twopipes.outcome",
    "Ok": "twopipes.outcome",
    "attempt": "twopipes.outcome",
    "ServerCommand": "twopipes.process.command",
    "ExitStatus": "twopipes.process.exit_status",
    "ShutdownPlan": "twopipes.process.shutdown",
    "ShutdownReport": "twopipes.process.shutdown",
    "StderrLine": "twopipes.process.stderr",
    "Server": "twopipes.server.app",
    "CancelToken": "twopipes.server.context",
    "ClientView": "twopipes.server.context",
    "Context": "twopipes.server.context",
    "Elicited": "twopipes.server.context",
    "Audio": "twopipes.server.returned",
    "Image": "twopipes.server.returned",
    "ToolResult": "twopipes.server.returned",
    "Change": "twopipes.session.subscriptions",
    "Limits": "twopipes.settings",
    "QuestionPolicy": "twopipes.settings",
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
