"""The limit for a server that serves one call at a time: a blocking loop and msgspec, written by hand."""

import os
import sys
import time

import msgspec
from hand_protocol import Message, answer, protocol_answer, refusal, text_result, weather_result

PIECE = 64 * 1024


def pause(seconds: float) -> dict:
    """Wait and block."""
    time.sleep(seconds)
    return text_result("done")


TOOLS = {
    "echo": text_result,
    "echo_def": text_result,
    "weather": weather_result,
    "swallow": lambda text: text_result(str(len(text))),
    "produce": lambda size: text_result("x" * size),
    "pause": pause,
    "pause_def": pause,
}


def respond(message: Message) -> dict:
    """Return the response to a request."""
    if message.method != "tools/call":
        return protocol_answer(message)
    name = message.params["name"]
    if name not in TOOLS:
        return refusal(message, -32602, f"no such tool: {name}")
    try:
        result = TOOLS[name](**message.params.get("arguments", {}))
    except Exception as error:
        result = {**text_result(str(error)), "isError": True}
    return answer(message, result)


def serve() -> None:
    """Read and answer requests until EOF."""
    decode, encode = msgspec.json.Decoder(Message).decode, msgspec.json.Encoder().encode
    answers = sys.stdout.buffer
    pieces: list[bytes] = []
    while piece := os.read(0, PIECE):
        pieces.append(piece)
        if b"\n" not in piece:
            continue
        *lines, rest = b"".join(pieces).split(b"\n")
        pieces = [rest] if rest else []
        for line in lines:
            message = decode(line)
            if message.id is not None:
                answers.write(encode(respond(message)))
                answers.write(b"\n")
        answers.flush()


if __name__ == "__main__":
    serve()
