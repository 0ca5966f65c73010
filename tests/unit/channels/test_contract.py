"""One contract, every kind of channel."""

import asyncio
import random
import socket
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systems import on_posix
from twopipes._channels.base import HIGH_WATER
from twopipes._channels.memory import memory_pair
from twopipes._channels.pipes import pipe_pair
from twopipes._channels.sockets import listen_tcp
from twopipes.errors import ChannelBroken, ChannelClosed, LocalProtocolError
from unit.channels.joined import (
    CONNECTED_BY_SOCKETS,
    KINDS,
    LARGE,
    PLENTY,
    blocked,
    joined,
    nothing_left_behind,
    outcome,
    read_all,
    read_exactly,
    run,
    spin,
    write_until_broken,
)

pytestmark = pytest.mark.slow

every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
@settings(max_examples=min(12, settings.default.max_examples), deadline=None)
@given(pieces=st.lists(st.binary(max_size=300) | st.integers(1, 200_000).map(lambda size: LARGE[:size]), max_size=12))
def test_what_one_side_writes_the_other_reads_whatever_the_cut(kind, pieces):
    """FR-13, FR-11, FR-12: any chunking, in order, the same over every kind of channel."""

    async def body():
        async with joined(kind) as (one, other):

            async def send(channel, order):
                for piece in order:
                    channel.write(piece)
                    await channel.drain()
                await channel.close_write()

            results = await asyncio.gather(send(one, pieces), send(other, pieces[::-1]), read_all(other), read_all(one))
            assert results[2] == b"".join(pieces)
            assert results[3] == b"".join(pieces[::-1])

    run(body())


@every_kind
def test_what_the_system_does_not_take_is_kept_and_arrives_in_order(kind):
    """FR-13: messages written while the peer does not read do not interleave."""

    async def body():
        async with joined(kind) as (one, other):
            chance = random.Random(13)
            sent = 0
            while sent < len(PLENTY) // 2:
                size = chance.choice([1, 10, 5_000, 70_000, 900_000])
                one.write(PLENTY[sent : sent + size])
                sent += size
            assert one.buffered > 0
            await spin()
            assert one.buffered > 0, "there is no reader"
            assert await read_exactly(other, sent) == PLENTY[:sent]
            await one.flush()
            assert one.buffered == 0

    run(body())


@pytest.mark.slow
@every_kind
def test_64_mib_in_one_write_arrive_intact_both_ways_at_once(kind):
    async def body():
        async with joined(kind) as (one, other):
            one.write(LARGE)
            other.write(LARGE)
            there, back = await asyncio.gather(read_exactly(other, len(LARGE)), read_exactly(one, len(LARGE)))
            assert there == LARGE
            assert back == LARGE

    run(body())


@every_kind
def test_half_closing_ends_one_direction_and_leaves_the_other(kind):
    async def body():
        async with joined(kind) as (one, other):
            one.write(b"the last words")
            await one.close_write()
            assert await read_all(other) == b"the last words"
            for _ in range(3):
                assert await other.read() == b"", "the end is for ever"
            other.write(b"an answer")
            assert await read_exactly(one, 9) == b"an answer"
            with pytest.raises(ChannelClosed, match="close_write"):
                one.write(b"more")
            await one.close_write()
            await other.close_write()
            assert await one.read() == b""

    run(body())


@every_kind
def test_half_closing_sends_everything_first(kind):
    async def body():
        async with joined(kind) as (one, other):
            one.write(PLENTY[:5_000_000])
            closing = await blocked(one.close_write())
            assert await read_all(other) == PLENTY[:5_000_000]
            await closing

    run(body())


@every_kind
def test_a_reader_that_waits_reads_the_end_when_the_peer_closes(kind):
    async def body():
        async with joined(kind) as (one, other):
            reading = await blocked(one.read())
            await other.close()
            assert await reading == b""
            assert await one.read() == b""

    run(body())


@every_kind
def test_what_was_flushed_arrives_although_the_writer_closed(kind):
    async def body():
        async with joined(kind) as (one, other):
            one.write(b"goodbye")
            await one.flush()
            await one.close()
            assert await read_all(other) == b"goodbye"

    run(body())


@every_kind
def test_writing_to_a_peer_that_is_gone_is_a_broken_channel_from_then_on(kind):
    async def body():
        async with joined(kind) as (one, other):
            await other.close()
            assert isinstance(await write_until_broken(one), ChannelBroken)
            with pytest.raises(ChannelBroken):
                one.write(b"again")
            for waiting in (one.drain, one.flush, one.close_write):
                with pytest.raises(ChannelBroken):
                    await waiting()
            assert one.buffered == 0, "what can never be sent is let go"

    run(body())


@every_kind
def test_a_peer_that_closes_wakes_waiting_writers(kind):
    async def body():
        async with joined(kind) as (one, other):
            one.write(PLENTY)
            waiting = [await blocked(wait()) for wait in (one.drain, one.drain, one.flush, one.close_write)]
            await other.close()
            for task in waiting:
                assert isinstance(await outcome(task), ChannelBroken)

    run(body())


@pytest.mark.parametrize("kind", CONNECTED_BY_SOCKETS)
def test_closing_a_socket_over_unread_bytes_resets_it(kind):
    async def body():
        async with joined(kind) as (one, other):
            reading = await blocked(one.read())
            one.write(b"never read")
            await one.flush()
            await other.close()
            # The system may report EOF before the reset, but must not invent bytes.
            error = await outcome(reading)
            assert error is None or isinstance(error, ChannelBroken)
            if error is not None:
                with pytest.raises(ChannelBroken):
                    await one.read()

    run(body())


def test_a_reset_connection_is_broken_not_ended():
    async def body():
        accepted = asyncio.get_running_loop().create_future()
        outcomes = []

        async def on_connect(channel):
            accepted.set_result(channel)
            for _ in range(2):
                with pytest.raises(ChannelBroken, match="reset") as caught:
                    await channel.read()
                outcomes.append(caught.value)

        async with await listen_tcp(0, on_connect) as listener:
            peer = socket.create_connection(("127.0.0.1", listener.port))
            await accepted
            # With a linger of zero, close() sends RST instead of FIN.
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.close()
            await listener.close(cancel_connections=False)
        assert len(outcomes) == 2

    run(body())


def test_an_aborted_memory_channel_is_broken_for_the_peer():
    async def body():
        one, other = memory_pair()
        other.write(b"lost")
        reading = await blocked(other.read())
        await one.abort()
        assert isinstance(await outcome(reading), ChannelBroken)
        with pytest.raises(ChannelBroken):
            other.write(b"more")
        with pytest.raises(ChannelClosed):
            await one.read()
        await other.close()

    run(body())


@every_kind
def test_while_the_peer_does_not_read_the_writer_waits(kind):
    async def body():
        async with joined(kind) as (one, other):
            one.write(PLENTY)
            draining = await blocked(one.drain())
            flushing = await blocked(one.flush())
            await read_exactly(other, len(PLENTY))
            await draining
            await flushing
            assert one.buffered == 0
            await one.drain()

    run(body())


@every_kind
def test_a_writer_that_drains_holds_no_more_than_the_mark_and_its_last_piece(kind):
    async def body():
        async with joined(kind) as (one, other):
            piece, count, most = PLENTY[:50_000], 200, 0

            async def send():
                nonlocal most
                for _ in range(count):
                    one.write(piece)
                    most = max(most, one.buffered)
                    await one.drain()
                await one.close_write()

            sending = asyncio.create_task(send())
            received = 0
            while chunk := await other.read():
                received += len(chunk)
                await spin(3)
            await sending
            assert received == count * len(piece)
            assert most <= HIGH_WATER + len(piece)

    run(body())


@every_kind
def test_nothing_is_read_ahead_of_the_reader(kind):
    async def body():
        async with joined(kind) as (one, other):
            one.write(LARGE)
            assert await other.read()
            await spin(200)
            assert one.buffered > len(LARGE) // 2, "only the buffers of the system may fill"

    run(body())


@every_kind
def test_closing_wakes_everyone_who_waits(kind):
    async def body():
        async with joined(kind) as (one, _other):
            one.write(PLENTY)
            waiting = [await blocked(wait()) for wait in (one.read, one.drain, one.drain, one.flush, one.close_write)]
            await one.close()
            for task in waiting:
                assert isinstance(await outcome(task), ChannelClosed)

    run(body())


@every_kind
def test_a_closed_channel_refuses_everything_but_closing(kind):
    async def body():
        async with joined(kind) as (one, _other):
            await one.close()
            await one.close()
            with pytest.raises(ChannelClosed):
                one.write(b"x")
            for operation in (one.read, one.drain, one.flush, one.close_write):
                with pytest.raises(ChannelClosed):
                    await operation()
            assert one.buffered == 0

    run(body())


@every_kind
@pytest.mark.parametrize("seed", range(3))
def test_cancelling_reads_loses_no_byte(kind, seed):
    async def body():
        chance = random.Random(seed)
        async with joined(kind) as (one, other):
            received = bytearray()

            async def send():
                for start in range(0, 300_000, 1_000):
                    one.write(PLENTY[start : start + 1_000])
                    await spin(chance.randrange(4))
                await one.close_write()

            sending = asyncio.create_task(send())
            cancelled = 0
            for _ in range(400):
                reading = asyncio.create_task(other.read())
                await spin(chance.randrange(4))
                reading.cancel()
                try:
                    received += await reading
                except asyncio.CancelledError:
                    cancelled += 1
            received += await read_all(other)
            await sending
            assert cancelled, "the test is about these"
            assert bytes(received) == PLENTY[:300_000]

    run(body())


@every_kind
@pytest.mark.parametrize("seed", range(3))
def test_taken_and_read_data_together_are_what_was_sent(kind, seed):
    """A function may take or refuse any data: nothing is lost, duplicated or reordered."""
    chance = random.Random(seed)

    async def body():
        async with joined(kind) as (one, other):
            arrived = []

            def take(chunk):
                taken = chance.random() < 0.5
                if taken:
                    arrived.append(chunk)
                return taken

            async def read():
                while chunk := await one.read():
                    arrived.append(chunk)

            one.offer_to(take)
            reading = asyncio.create_task(read())
            sent = [LARGE[: chance.randrange(1, 3000)] for _ in range(200)]
            for piece in sent:
                other.write(piece)
                await other.drain()
                if chance.random() < 0.5:
                    await asyncio.sleep(0)
            await other.close_write()
            await reading
            assert b"".join(arrived) == b"".join(sent)

    run(body())


@every_kind
def test_what_a_taker_raises_is_raised_by_the_read(kind):
    async def body():
        async with joined(kind) as (one, other):

            def take(chunk):
                raise KeyError(chunk)

            one.offer_to(take)
            other.write(b"x")
            try:
                assert await one.read() == b"x"  # a channel may ignore the function
            except KeyError as error:
                assert error.args == (b"x",)  # noqa: PT017 - either is right

    run(body())


@every_kind
def test_cancelling_waiting_writers_drops_nothing(kind):
    async def body():
        async with joined(kind) as (one, other):
            one.write(PLENTY)
            for wait in (one.drain, one.flush, one.close_write):
                task = await blocked(wait())
                task.cancel()
                assert isinstance(await outcome(task), asyncio.CancelledError)
            closing = await blocked(one.close_write())
            assert await read_all(other) == PLENTY
            await closing

    run(body())


@every_kind
def test_a_second_reader_is_refused_and_the_first_is_not_disturbed(kind):
    async def body():
        async with joined(kind) as (one, other):
            reading = await blocked(one.read())
            with pytest.raises(LocalProtocolError, match="one reader"):
                await one.read()
            other.write(b"for the first")
            assert await reading == b"for the first"

    run(body())


@every_kind
def test_writing_nothing_sends_nothing(kind):
    async def body():
        async with joined(kind) as (one, other):
            one.write(b"")
            one.write(PLENTY)
            before = one.buffered
            one.write(b"")
            assert one.buffered <= before
            closing = asyncio.create_task(one.close_write())
            assert await read_all(other) == PLENTY
            await closing

    run(body())


@every_kind
def test_a_buffer_that_its_owner_changes_afterwards_was_sent_as_it_was(kind):
    async def body():
        async with joined(kind) as (one, other):
            mutable = bytearray(PLENTY)
            one.write(mutable)
            mutable[:] = b"changed"
            assert await read_exactly(other, len(PLENTY)) == PLENTY

    run(body())


@pytest.mark.slow
@every_kind
def test_nothing_is_left_behind(kind):
    async def body():
        with nothing_left_behind():
            async with joined(kind):
                pass
            async with joined(kind) as (one, other):
                one.write(PLENTY)
                reading = await blocked(one.read())
                draining = await blocked(one.drain())
                await one.close()
                await other.close()
                for task in (reading, draining):
                    await outcome(task)
            async with joined(kind) as (one, other):
                one.write(b"there and back")
                other.write(await read_exactly(other, 14))
                await read_exactly(one, 14)
                await one.close_write()
                assert await other.read() == b""
            assert asyncio.all_tasks() == {asyncio.current_task()}

    run(body())


@every_kind
def test_a_channel_describes_itself(kind):
    async def body():
        async with joined(kind) as (one, _other):
            assert one.description
            assert one.description in repr(one)
            await one.close()
            with pytest.raises(ChannelClosed) as caught:
                await one.read()
            assert "closed on this side" in str(caught.value)

    run(body())


@pytest.mark.parametrize("make", [memory_pair, pipe_pair])
def test_the_marks_decide_when_drain_waits(make):
    async def body():
        one, other = make(high_water=10, low_water=2)
        async with one, other:
            one.write(PLENTY[:1_000_000])
            draining = await blocked(one.drain())
            while one.buffered > 2:
                assert not draining.done()
                await other.read()
                await asyncio.sleep(0)
            await draining

    run(body())


def test_invalid_marks_are_rejected():
    with pytest.raises(LocalProtocolError, match="low-water"):
        memory_pair(high_water=1, low_water=2)


@on_posix("a pipe on Windows does not report that its reader is gone")
@pytest.mark.parametrize("kind", ["pipes", "unix", "stdio over pipes", "stdio over a socketpair", "recorded"])
def test_a_local_channel_finds_out_that_its_peer_reads_no_more(kind):
    async def body():
        async with joined(kind) as (one, other):
            for channel, peer in ((one, other), (other, one)):
                assert not channel.is_reader_gone
                assert not peer.is_reader_gone
            await other.close_write()
            await one.read()
            assert not one.is_reader_gone  # it has closed its own output only
            await other.close()
            assert one.is_reader_gone
            await one.close()
            assert not one.is_reader_gone  # there is nothing to ask

    run(body())
