"""A bare ASGI application: reads a JSON-RPC request and sends the response that echo would. No protocol, no checks.

It is the floor for every server on the same ASGI server.
"""

from typing import Any

from msgspec import Struct, json


class Arguments(Struct):
    """The arguments of echo."""

    text: str


class Params(Struct):
    """The params of a call."""

    arguments: Arguments


class Call(Struct):
    """A request."""

    id: int
    params: Params


read = json.Decoder(Call).decode
write = json.Encoder().encode


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Serve one request."""
    if scope["type"] == "lifespan":
        while True:
            event = (await receive())["type"]
            await send({"type": f"{event}.complete"})
            if event == "lifespan.shutdown":
                return
    body = b""
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    if scope["method"] != "POST":
        response = b"{}"
    else:
        call = read(body)
        text = call.params.arguments.text
        result = {
            "content": [{"type": "text", "text": text}],
            "structuredContent": {"result": text},
            "resultType": "complete",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "bare", "version": "1.0"}},
        }
        response = write({"jsonrpc": "2.0", "id": call.id, "result": result})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(response)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": response})
