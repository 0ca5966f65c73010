"""The Model Context Protocol over stdio and HTTP, for Python.

Public names are loaded on first use, so ``import twopipes`` is cheap. Protocol types are in
:mod:`twopipes.types`, errors in :mod:`twopipes.errors`, settings in :mod:`twopipes.settings`.
"""

TYPE_CHECKING = False  # see twopipes._lazy
if TYPE_CHECKING:
    from twopipes._client.client import Client as Client
    from twopipes._client.connect import connect as connect
    from twopipes._client.results import CallResult as CallResult
    from twopipes._client.subscription import Subscription as Subscription
    from twopipes._process.command import ServerCommand as ServerCommand
    from twopipes._process.shutdown import ShutdownPlan as ShutdownPlan
    from twopipes._server.app import Server as Server
    from twopipes._server.context import CancelToken as CancelToken
    from twopipes._server.context import Context as Context
    from twopipes._server.results import Audio as Audio
    from twopipes._server.results import Image as Image
    from twopipes._server.results import ToolResult as ToolResult
    from twopipes._session.subscriptions import Change as Change
    from twopipes._version import __version__ as __version__
    from twopipes.errors import McpError as McpError
    from twopipes.errors import RequestCancelled as RequestCancelled
    from twopipes.errors import RequestTimedOut as RequestTimedOut
    from twopipes.errors import ServerExited as ServerExited
    from twopipes.errors import ToolError as ToolError
    from twopipes.errors import TwopipesError as TwopipesError
    from twopipes.settings import InputPolicy as InputPolicy
    from twopipes.settings import Limits as Limits
    from twopipes.settings import RestartPolicy as RestartPolicy
    from twopipes.settings import ServerSettings as ServerSettings
    from twopipes.settings import Timeouts as Timeouts
else:
    from twopipes._lazy import lazy_names

    __getattr__, __dir__, __all__ = lazy_names(
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
