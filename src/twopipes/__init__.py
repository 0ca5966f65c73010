"""twopipes: the Model Context Protocol over stdio, for Python.

The public names are loaded when they are first used: ``import twopipes`` alone costs next to nothing.
"""

TYPE_CHECKING = False  # what type checkers read as true; importing typing would cost more than all the rest here
if TYPE_CHECKING:
    from twopipes.errors import (
        CapabilityMissing,
        ChannelBroken,
        ChannelClosed,
        ConnectionLost,
        InternalError,
        InvalidParams,
        InvalidRequest,
        ListenFailed,
        LocalProtocolError,
        McpError,
        MethodNotFound,
        NotFound,
        OpeningFailed,
        RemoteProtocolError,
        RequestCancelled,
        RequestTimedOut,
        ToolError,
        TwopipesError,
        UnsupportedRevision,
        UrlsRequired,
        UserRefused,
    )
    from twopipes.server.app import Server
    from twopipes.server.context import Context
    from twopipes.server.returned import Audio, Image, ToolResult
    from twopipes.settings import (
        Limits,
        QuestionPolicy,
        ServerSettings,
        Timeouts,
    )

__all__ = [
    "Audio",
    "CapabilityMissing",
    "ChannelBroken",
    "ChannelClosed",
    "ConnectionLost",
    "Context",
    "Image",
    "InternalError",
    "InvalidParams",
    "InvalidRequest",
    "Limits",
    "ListenFailed",
    "LocalProtocolError",
    "McpError",
    "MethodNotFound",
    "NotFound",
    "OpeningFailed",
    "QuestionPolicy",
    "RemoteProtocolError",
    "RequestCancelled",
    "RequestTimedOut",
    "Server",
    "ServerSettings",
    "Timeouts",
    "ToolError",
    "ToolResult",
    "TwopipesError",
    "UnsupportedRevision",
    "UrlsRequired",
    "UserRefused",
]

__version__ = "0.1.0"

# Where each public name lives. The imports above say the same to type checkers; a test compares the two.
_HOMES = {
    "CapabilityMissing": "twopipes.errors",
    "ChannelBroken": "twopipes.errors",
    "ChannelClosed": "twopipes.errors",
    "ConnectionLost": "twopipes.errors",
    "InternalError": "twopipes.errors",
    "InvalidParams": "twopipes.errors",
    "InvalidRequest": "twopipes.errors",
    "ListenFailed": "twopipes.errors",
    "LocalProtocolError": "twopipes.errors",
    "McpError": "twopipes.errors",
    "MethodNotFound": "twopipes.errors",
    "NotFound": "twopipes.errors",
    "OpeningFailed": "twopipes.errors",
    "RemoteProtocolError": "twopipes.errors",
    "RequestCancelled": "twopipes.errors",
    "RequestTimedOut": "twopipes.errors",
    "ToolError": "twopipes.errors",
    "TwopipesError": "twopipes.errors",
    "UnsupportedRevision": "twopipes.errors",
    "UrlsRequired": "twopipes.errors",
    "UserRefused": "twopipes.errors",
    "Server": "twopipes.server.app",
    "Context": "twopipes.server.context",
    "Audio": "twopipes.server.returned",
    "Image": "twopipes.server.returned",
    "ToolResult": "twopipes.server.returned",
    "Limits": "twopipes.settings",
    "QuestionPolicy": "twopipes.settings",
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
