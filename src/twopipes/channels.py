"""Byte streams: the channel interface and its implementations."""

TYPE_CHECKING = False  # see twopipes._lazy
if TYPE_CHECKING:
    from twopipes._channels.base import Channel as Channel
    from twopipes._channels.listener import Listener as Listener
    from twopipes._channels.memory import MemoryChannel as MemoryChannel
    from twopipes._channels.memory import memory_pair as memory_pair
    from twopipes._channels.pipes import PipeChannel as PipeChannel
    from twopipes._channels.pipes import pipe_pair as pipe_pair
    from twopipes._channels.socket_channel import SocketChannel as SocketChannel
    from twopipes._channels.sockets import connect_tcp as connect_tcp
    from twopipes._channels.sockets import connect_unix as connect_unix
    from twopipes._channels.sockets import listen_tcp as listen_tcp
    from twopipes._channels.sockets import listen_unix as listen_unix
    from twopipes._channels.stdio import open_stdio as open_stdio
    from twopipes._channels.stdout_guard import Guard as Guard
else:
    from twopipes._lazy import lazy_names

    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "twopipes._channels.base": "Channel",
            "twopipes._channels.listener": "Listener",
            "twopipes._channels.memory": "MemoryChannel memory_pair",
            "twopipes._channels.pipes": "PipeChannel pipe_pair",
            "twopipes._channels.socket_channel": "SocketChannel",
            "twopipes._channels.sockets": "connect_tcp connect_unix listen_tcp listen_unix",
            "twopipes._channels.stdio": "open_stdio",
            "twopipes._channels.stdout_guard": "Guard",
        },
    )
