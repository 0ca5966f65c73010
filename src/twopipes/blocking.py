"""The client and the group without ``await``, for scripts, notebooks and threads. They also work while an event loop is running.

::

    from twopipes.blocking import connect

    with connect("python", "server.py") as client:
        print(client.call_tool("add", {"a": 1, "b": 2}).text)
"""

TYPE_CHECKING = False  # see twopipes._lazy
if TYPE_CHECKING:
    from twopipes._blocking.client import Client as Client
    from twopipes._blocking.client import InputRequired as InputRequired
    from twopipes._blocking.connect import connect as connect
    from twopipes._blocking.group import ServerGroup as ServerGroup
    from twopipes._blocking.group_server import GroupServer as GroupServer
    from twopipes._blocking.subscription import Subscription as Subscription
else:
    from twopipes._lazy import lazy_names

    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "twopipes._blocking.client": "Client InputRequired",
            "twopipes._blocking.connect": "connect",
            "twopipes._blocking.group": "ServerGroup",
            "twopipes._blocking.group_server": "GroupServer",
            "twopipes._blocking.subscription": "Subscription",
        },
    )
