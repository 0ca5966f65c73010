"""A real server whose handlers raise a BaseException, and one that can no longer read."""

import json

import pytest

from processes.launching import INITIALIZE, INITIALIZED, TASKS_ARE_EAGER, call, lines, text_of

RAISING = """
    import asyncio, sys, time
    from twopipes import Server

    server = Server("raising")

    class Uncommon(BaseException):
        pass

    KINDS = {"custom": Uncommon, "generator": GeneratorExit, "interrupt": KeyboardInterrupt, "cancel": asyncio.CancelledError}

    @server.tool
    async def instant(kind: str) -> str:
        raise KINDS[kind]("odd")

    @server.tool
    async def waiting(kind: str) -> str:
        await asyncio.sleep(0)
        raise KINDS[kind]("odd")

    @server.tool
    def threaded(kind: str) -> str:
        raise KINDS[kind]("odd")

    @server.tool
    async def exit_in_a_subtask() -> str:
        async def subtask():
            sys.exit(3)

        await asyncio.create_task(subtask())

    @server.tool
    async def fine() -> str:
        return "fine"

    server.run()
"""


def answers_of(done):
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    by_id = {answer["id"]: answer for answer in answers}
    assert len(by_id) == len(answers)
    return by_id


@pytest.mark.parametrize("kind", ["custom", "generator"])
@pytest.mark.parametrize("tool", ["instant", "waiting", "threaded"])
def test_a_base_exception_in_the_first_call_gets_a_response(tool, kind, write, run):
    """JR-16, TL-05: all input arrives in one piece before the server has started."""
    said = lines(INITIALIZE, INITIALIZED, call(1, tool, kind=kind), call(2, tool, kind=kind), call(3, "fine"))
    done = run(write(RAISING), input=said)
    answers = answers_of(done)
    assert sorted(answers) == [0, 1, 2, 3]
    assert answers[1]["result"]["isError"]
    assert answers[2]["result"]["isError"]
    assert text_of(answers[3]) == "fine"
    assert done.returncode == 0
    assert done.stderr.decode().count(f"Error: tools/call {tool} failed") == 2
    assert "odd" in done.stderr.decode()


@pytest.mark.parametrize("tool", ["instant", "waiting", "threaded"])
def test_a_keyboard_interrupt_in_a_tool_gets_a_response_and_ends_the_process(tool, write, run):
    done = run(write(RAISING), input=lines(INITIALIZE, INITIALIZED, call(1, tool, kind="interrupt")))
    assert answers_of(done)[1]["error"]["message"] == "the handler was interrupted"
    assert done.returncode in (130, -2)
    assert done.stderr.decode().rstrip().endswith("KeyboardInterrupt: odd")


def test_an_exit_in_a_subtask_of_a_tool_gets_a_response_and_ends_the_process(write, launch):
    """asyncio itself lets a SystemExit of a task end the loop, which cancels the handler. With uvloop the handler gets it first."""
    child = launch(write(RAISING))
    child.initialize()
    child.send(call(1, "exit_in_a_subtask"))
    answer = child.receive()
    outcome = answer["error"]["message"] if "error" in answer else text_of(answer)
    assert outcome in {"the handler was cancelled", "The tool exit_in_a_subtask failed: SystemExit"}
    if TASKS_ARE_EAGER:
        child.end_input()  # an eager subtask exits within the handler, and a handler that exits only fails its call
    assert child.out.rest() == []
    assert child.wait() == (0 if TASKS_ARE_EAGER else 3)


BROKEN = """
    from twopipes import Server
    from twopipes._session.server import ServerSession

    server = Server("broken")

    @server.tool
    async def fine() -> str:
        return "fine"

    receive = ServerSession.receive

    def receive_or_break(self, data, *, now):
        if b"break" in data:
            raise ZeroDivisionError("a defect of the session")
        return receive(self, data, now=now)

    ServerSession.receive = receive_or_break
    server.run()
"""


@pytest.mark.parametrize("run_by", ["python", "twopipes run"])
@pytest.mark.parametrize("wire", ["pipe", "socket"])
def test_a_server_that_cannot_read_reports_it_and_fails(wire, run_by, write, launch):
    program = write(BROKEN)
    child = launch(program, wire=wire) if run_by == "python" else launch("-m", "twopipes", "run", program, wire=wire)
    child.initialize()
    assert text_of(child.ask(call(1, "fine"))) == "fine"
    child.send(call("break", "fine"))
    assert child.out.rest() == []
    assert child.wait() not in {0, None}
    assert "a defect of the session" in child.complaints()
