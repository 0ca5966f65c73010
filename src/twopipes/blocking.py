"""The client without ``await``, for scripts, notebooks and threads. It also works while an event loop is running.

::

    from twopipes.blocking import connect

    with connect("python", "server.py") as client:
        print(client.call_tool("add", {"a": 1, "b": 2}).text)
"""

from twopipes._blocking.client import Client, InputRequired
from twopipes._blocking.connect import connect
from twopipes._blocking.subscription import Subscription

__all__ = ["Client", "InputRequired", "Subscription", "connect"]
