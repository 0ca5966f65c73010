"""The Model Context Protocol over stdio, for Python.

Public names are loaded on first use, so ``import twopipes`` is cheap. Protocol types are in
:mod:`twopipes.types`, errors in :mod:`twopipes.errors`, settings in :mod:`twopipes.settings`.
"""

TYPE_CHECKING = False  # see twopipes._lazy
if TYPE_CHECKING:
    from twopipes._client.client import Client
    from twopipes._client.connect import connect
    from twopipes._client.results import CallResult
    from twopipes._client.subscription import Subscription
    from twopipes._process.command import ServerCommand
    from twopipes._process.shutdown import ShutdownPlan
    from twopipes._server.app import Server
    from twopipes._server.context import CancelToken, Context
    from twopipes._server.results import Audio, Image, ToolResult
    from twopipes._session.subscriptions import Change
    from twopipes._version import __version__
    from twopipes.errors import McpError, RequestCancelled, RequestTimedOut, ServerExited, ToolError, TwopipesError
    from twopipes.settings import InputPolicy, Limits, RestartPolicy, ServerSettings, Timeouts
else:
    from twopipes._lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "twopipes._client.client": "Client",
            "twopipes._client.connect": "connect",
            "twopipes._client.results": "CallResult",
            "twopipes._client.subscription": "Subscription",
            "twopipes._process.command": "ServerCommand",
            "twopipes._process.shutdown": "ShutdownPlan",
            "twopipes._server.app": "Server",
            "twopipes._server.context": "CancelToken Context",
            "twopipes._server.results": "Audio Image ToolResult",
            "twopipes._session.subscriptions": "Change",
            "twopipes._version": "__version__",
            "twopipes.errors": "McpError RequestCancelled RequestTimedOut ServerExited ToolError TwopipesError",
            "twopipes.settings": "InputPolicy Limits RestartPolicy ServerSettings Timeouts",
        },
    )

__all__ = [
    "Audio",
    "CallResult",
    "CancelToken",
    "Change",
    "Client",
    "Context",
    "Image",
    "InputPolicy",
    "Limits",
    "McpError",
    "RequestCancelled",
    "RequestTimedOut",
    "RestartPolicy",
    "Server",
    "ServerCommand",
    "ServerExited",
    "ServerSettings",
    "ShutdownPlan",
    "Subscription",
    "Timeouts",
    "ToolError",
    "ToolResult",
    "TwopipesError",
    "__version__",
    "connect",
]
