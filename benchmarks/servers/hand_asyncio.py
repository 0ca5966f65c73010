"""The limit for a concurrent server: asyncio over the two pipes and msgspec, written by hand."""

import asyncio
import sys
import time

import msgspec
from hand_protocol import Message, answer, protocol_answer, refusal, text_result, weather_result

# The longest line: the default of a stream is 64 KiB.
LONGEST = 128 * 1024 * 1024


async def echo(text: str) -> dict:
    """Return a text."""
    return text_result(text)


def echo_def(text: str) -> dict:
    """Return a text, from a function that may block."""
    return text_result(text)


async def weather(city: str) -> dict:
    """Return the weather."""
    return weather_result(city)


async def swallow(text: str) -> dict:
    """Return the length of a text."""
    return text_result(str(len(text)))


async def produce(size: int) -> dict:
    """Make a text of a length."""
    return text_result("x" * size)


async def pause(seconds: float) -> dict:
    """Wait without blocking others."""
    await asyncio.sleep(seconds)
    return text_result("done")


def pause_def(seconds: float) -> dict:
    """Wait and block."""
    time.sleep(seconds)
    return text_result("done")


ASYNC_TOOLS = {each.__name__: each for each in (echo, weather, swallow, produce, pause)}
BLOCKING_TOOLS = {each.__name__: each for each in (echo_def, pause_def)}


async def call(message: Message) -> dict:
    """Call a tool and write the response."""
    name, arguments = message.params["name"], message.params.get("arguments", {})
    try:
        if name in ASYNC_TOOLS:
            result = await ASYNC_TOOLS[name](**arguments)
        elif name in BLOCKING_TOOLS:
            result = await asyncio.to_thread(BLOCKING_TOOLS[name], **arguments)
        else:
            return refusal(message, -32602, f"no such tool: {name}")
    except Exception as error:
        result = {**text_result(str(error)), "isError": True}
    return answer(message, result)


async def serve() -> None:
    """Read lines and answer each in its own task, until EOF."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LONGEST)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    decoder, encoder = msgspec.json.Decoder(Message), msgspec.json.Encoder()
    tasks: set[asyncio.Task[None]] = set()

    async def serve_call(message: Message) -> None:
        writer.write(encoder.encode(await call(message)) + b"\n")
        await writer.drain()

    while line := await reader.readline():
        message = decoder.decode(line)
        if message.method == "tools/call":
            task = asyncio.create_task(serve_call(message))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        elif message.id is not None:
            writer.write(encoder.encode(protocol_answer(message)) + b"\n")
            await writer.drain()
    if tasks:
        await asyncio.wait(tasks)
    writer.close()


if __name__ == "__main__":
    asyncio.run(serve())
