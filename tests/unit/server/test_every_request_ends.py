"""Every request ends exactly once, whatever a handler raises (JR-16, TL-05), and a failure to read is never silent."""

import asyncio
import contextlib
import gc
import json
import socket

import pytest

import sessions
from inmemory import ERAS, NET, Client, play
from twopipes import Context, McpError, Server, connect
from twopipes._channels.memory import memory_pair
from twopipes._channels.socket_channel import SocketChannel


class Uncommon(BaseException):
    """Not an Exception."""


RAISED = {
    "custom": Uncommon("odd"),
    "generator exit": GeneratorExit("odd"),
    "group": BaseExceptionGroup("odd", [Uncommon("odd")]),
    "system exit": SystemExit("odd"),
    "stop iteration": StopIteration("odd"),
}
# A request for each kind of handler.
REQUESTS = {
    "instant tool": ("tools/call", {"name": "instant"}),
    "waiting tool": ("tools/call", {"name": "waiting"}),
    "threaded tool": ("tools/call", {"name": "threaded"}),
    "resource": ("resources/read", {"uri": "odd://resource"}),
    "threaded resource": ("resources/read", {"uri": "odd://threaded"}),
    "template": ("resources/read", {"uri": "odd://template/x"}),
    "prompt": ("prompts/get", {"name": "prompt"}),
    "threaded prompt": ("prompts/get", {"name": "threaded_prompt"}),
    "completion": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "completed"}, "argument": {"name": "word", "value": ""}},
    ),
    "middleware": ("tools/list", {}),
    "middleware around a discovery": ("server/discover", {}),
}


def failing(error: BaseException, *, in_middleware: bool = False) -> Server:
    async def middleware(ctx, call_next):
        if ctx.call.method in {"tools/list", "server/discover"}:
            raise error
        return await call_next(ctx)

    server = Server("s", middleware=middleware if in_middleware else None)

    @server.tool
    async def instant() -> str:
        raise error

    @server.tool
    async def waiting() -> str:
        await asyncio.sleep(0)
        raise error

    @server.tool
    def threaded() -> str:
        raise error

    @server.tool
    async def fine() -> str:
        return "fine"

    @server.resource("odd://resource")
    async def resource() -> str:
        raise error

    @server.resource("odd://threaded")
    def threaded_resource() -> str:
        raise error

    @server.resource("odd://template/{name}")
    async def template(name: str) -> str:
        raise error

    @server.prompt
    async def prompt() -> str:
        raise error

    @server.prompt
    def threaded_prompt() -> str:
        raise error

    @server.prompt
    async def completed(word: str) -> str:
        return word

    @server.completion("completed", "word")
    async def complete(typed: str) -> list[str]:
        raise error

    return server


@pytest.mark.parametrize("raised", RAISED)
@pytest.mark.parametrize("handler", REQUESTS)
def test_a_request_whose_handler_raises_anything_ends_once_and_the_next_one_is_served(handler, raised, capsys):
    """TL-05, JR-16."""
    method, params = REQUESTS[handler]

    async def scenario(client: Client):
        failed, after = client.start(method, **params), client.start_tool("fine")
        answer = await client.line_of(failed)
        if method == "tools/call":
            assert answer["result"]["isError"]
        else:
            assert answer["error"]["code"] == -32603
        assert (await client.line_of(after))["result"]["content"][0]["text"] == "fine"
        await client.result("resources/list")
        assert len(client.answers_to(failed)) == 1

    play(failing(RAISED[raised], in_middleware="middleware" in handler), scenario)
    complaints = capsys.readouterr().err
    assert f"Error: {method}" in complaints
    assert "odd" in complaints


@pytest.mark.parametrize("handler", [name for name in REQUESTS if "middleware" not in name])
def test_a_handler_that_cancels_itself_is_answered(handler):
    """JR-16: the client did not cancel the call, so it waits for a response."""
    method, params = REQUESTS[handler]

    async def scenario(client: Client):
        failed = client.start(method, **params)
        assert (await client.line_of(failed))["error"]["message"] == "the handler was cancelled"
        assert await client.text("fine") == "fine"
        assert len(client.answers_to(failed)) == 1

    play(failing(asyncio.CancelledError("odd")), scenario)


@pytest.mark.parametrize("handler", ["instant tool", "waiting tool", "threaded tool", "resource"])
def test_a_keyboard_interrupt_of_a_handler_is_answered_and_ends_the_program(handler):
    method, params = REQUESTS[handler]
    ours, theirs = socket.socketpair()
    with ours:
        ours.sendall(json.dumps(sessions.modern(1, method, **params)).encode() + b"\n")

        async def main():
            await failing(KeyboardInterrupt()).serve(channel=SocketChannel(theirs, "a socket"))

        with pytest.raises(KeyboardInterrupt):
            asyncio.run(main())
        with ours.makefile("rb") as received:
            assert [json.loads(line)["error"]["message"] for line in received] == ["the handler was interrupted"]


@pytest.mark.parametrize("revision", ERAS)
def test_an_error_whose_data_raise_while_they_are_written_is_answered(revision):
    """JR-16: what cannot be written is left out, and the client does not wait for ever."""

    class Hostile(dict):
        def items(self):
            raise Uncommon("odd")

        __iter__ = keys = values = items

    class Text:
        def __str__(self):
            raise Uncommon("odd")

    server = Server("s")

    @server.tool
    async def fail() -> str:
        error = McpError("no", code=-1, data=Hostile(a=1))
        error.message = Text()
        raise error

    async def scenario(client: Client):
        answer = await client.line_of(client.start_tool("fail"))
        assert answer["error"] == {"code": -32603, "message": "Internal error"}
        await client.settle()

    play(server, scenario, revision)


@pytest.mark.slow
def test_a_handler_that_is_collected_after_the_end_is_not_reported(capsys):
    """Its coroutine is closed by the garbage collector, which is not a failure of the handler."""
    server = Server("s")
    begun = asyncio.Event()

    @server.tool
    async def stubborn(ctx: Context) -> str:
        begun.set()
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    loop = asyncio.new_event_loop()

    async def main():
        ours, theirs = memory_pair()
        client = Client(ours, "2026-07-28", {})
        serving = asyncio.create_task(server._serve_channel(theirs))
        client.start_tool("stubborn")
        await begun.wait()
        serving.cancel()
        await asyncio.wait([serving])
        await client.close()

    loop.run_until_complete(main())
    loop.set_exception_handler(lambda loop, context: None)  # asyncio complains of the task by itself
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False
    loop.close()
    gc.collect()
    assert "GeneratorExit" not in capsys.readouterr().err


def test_a_failure_to_read_is_raised_by_serve_after_what_is_in_flight_was_answered():
    server = Server("s")
    go_on = asyncio.Event()

    @server.tool
    async def late() -> str:
        await go_on.wait()
        return "late"

    async def main():
        ours, theirs = memory_pair()
        client = Client(ours, "2026-07-28", {})
        client.listen()
        serving = asyncio.create_task(server.serve(channel=theirs))
        request_id = client.start_tool("late")
        await client.settle()
        (connection,) = server._connections

        def broken(data, *, now):
            go_on.set()
            raise ZeroDivisionError("a defect of the session")

        connection.session.receive = broken
        client.start_tool("late")
        with pytest.raises(ZeroDivisionError, match="a defect of the session"):
            async with asyncio.timeout(NET):
                await serving
        await client.until(lambda: client.over)
        assert client.answers_to(request_id)[0]["result"]["content"][0]["text"] == "late"
        await client.close()

    asyncio.run(main())


def test_a_report_that_cannot_be_written_does_not_stop_the_server(monkeypatch):
    class Closed:
        def write(self, text):
            raise ValueError("I/O operation on closed file")

    async def main():
        async with connect(failing(ValueError("odd"))) as client:
            monkeypatch.setattr("sys.stderr", Closed())
            assert (await client.call_tool("instant", {})).is_error
            assert (await client.call_tool("fine", {})).text == "fine"
            monkeypatch.undo()

    asyncio.run(main())
