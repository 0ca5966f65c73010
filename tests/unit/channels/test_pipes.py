"""Each direction of a pipe channel can be closed on its own."""

import sys

import pytest

from twopipes._channels.pipes import pipe_pair
from twopipes.errors import ChannelBroken, ChannelClosed
from unit.channels.joined import blocked, run, write_until_broken

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="made by POSIX calls")


def test_writing_continues_after_close_read():
    async def body():
        one, other = pipe_pair()
        async with one, other:
            reading = await blocked(one.read())
            one.close_read()
            with pytest.raises(ChannelClosed):
                await reading
            assert isinstance(await write_until_broken(other), ChannelBroken)
            one.write(b"still here\n")
            assert await other.read() == b"still here\n"

    run(body())
