"""Many servers at once: configuration files of hosts, and groups of servers."""

TYPE_CHECKING = False  # see twopipes._lazy
if TYPE_CHECKING:
    from twopipes._host.approval import Allow as Allow
    from twopipes._host.approval import Deny as Deny
    from twopipes._host.approval import Edit as Edit
    from twopipes._host.approval import ToolChange as ToolChange
    from twopipes._host.config import ServerConfig as ServerConfig
    from twopipes._host.filters import ToolFilter as ToolFilter
    from twopipes._host.group import ServerGroup as ServerGroup
    from twopipes._host.group_server import GroupServer as GroupServer
    from twopipes._host.group_tool import GroupPrompt as GroupPrompt
    from twopipes._host.group_tool import GroupTool as GroupTool
    from twopipes._host.load import load as load
    from twopipes._host.model_results import anthropic_result as anthropic_result
    from twopipes._host.model_results import openai_result as openai_result
    from twopipes._host.names import NameProblem as NameProblem
    from twopipes.settings import Sandbox as Sandbox
else:
    from twopipes._lazy import lazy_names

    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "twopipes._host.approval": "Allow Deny Edit ToolChange",
            "twopipes._host.config": "ServerConfig",
            "twopipes._host.filters": "ToolFilter",
            "twopipes._host.group": "ServerGroup",
            "twopipes._host.group_server": "GroupServer",
            "twopipes._host.group_tool": "GroupPrompt GroupTool",
            "twopipes._host.load": "load",
            "twopipes._host.model_results": "anthropic_result openai_result",
            "twopipes._host.names": "NameProblem",
            "twopipes.settings": "Sandbox",
        },
    )
