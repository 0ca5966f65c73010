"""Many servers at once: configuration files of hosts, and groups of servers."""

TYPE_CHECKING = False  # see twopipes._lazy
if TYPE_CHECKING:
    from twopipes._host.config import ServerConfig as ServerConfig
    from twopipes._host.filters import ToolFilter as ToolFilter
    from twopipes._host.model_results import anthropic_result as anthropic_result
    from twopipes._host.model_results import openai_result as openai_result
    from twopipes.settings import Sandbox as Sandbox
else:
    from twopipes._lazy import lazy_names

    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "twopipes._host.config": "ServerConfig",
            "twopipes._host.filters": "ToolFilter",
            "twopipes._host.model_results": "anthropic_result openai_result",
            "twopipes.settings": "Sandbox",
        },
    )
