"""The usual mistakes that only a process shows: printing, reading and exiting, and what the host gets."""

import asyncio
import json
import sys

import pytest

from processes.launching import INITIALIZE, INITIALIZED, call, lines, text_of
from twopipes import Server, ServerExited, Timeouts, connect
from twopipes.errors import StartFailed

# Its tools behave like a program at a terminal.
HABITS = """
    import sys
    from twopipes import Server

    server = Server("habits")

    @server.tool
    def shout() -> str:
        print("Here I am")
        return "shouted"

    @server.tool
    def ask() -> str:
        return input("What is your name? ")

    @server.tool
    def leave() -> str:
        sys.exit("nothing to do")

    @server.tool
    async def leave_at_once() -> str:
        sys.exit(3)

    @server.tool
    def stay() -> str:
        return "still here"

    if __name__ == "__main__":
        server.run()
"""


@pytest.fixture
def habits(write, run):
    """Call one tool after the other; return their results, and stderr."""

    def habits(*tools):
        calls = [call(number, tool) for number, tool in enumerate(tools, start=1)]
        done = run(write(HABITS), input=lines(INITIALIZE, INITIALIZED, *calls))
        assert done.returncode == 0
        answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}
        return [text_of(answers[number]) for number in range(1, len(tools) + 1)], done.stderr.decode()

    return habits


def test_a_print_in_a_tool(habits):
    said, stderr = habits("shout")
    assert said == ["shouted"]
    line = HABITS.strip("\n").splitlines().index('        print("Here I am")') + 1
    assert f"Warning: print() at server.py:{line} went to stderr, because stdout carries the protocol\nHere I am\n" in stderr


def test_input_in_a_tool(habits):
    said, stderr = habits("ask", "stay")
    assert said == ["The tool ask failed: EOFError", "still here"]
    assert "Hint: standard input carries the protocol, so input() reads nothing. Ask the user with ctx.elicit(...)\n" in stderr


@pytest.mark.parametrize("tool", ["leave", "leave_at_once"])
def test_an_exit_in_a_tool(tool, habits):
    said, stderr = habits(tool, "stay")
    assert said == [f"The tool {tool} failed: SystemExit", "still here"]
    assert (
        "Hint: sys.exit() ends only this call; the server goes on. To give the model an error message, raise ToolError(...)\n"
        in (stderr)
    )


def test_run_inside_a_running_loop_and_what_to_write_instead(write, run):
    program = """
        import asyncio
        from twopipes import Server

        server = Server("nested")

        @server.tool
        def shout() -> str:
            print("Here I am")
            return "shouted"

        async def main():
            {}
            print("after it")

        asyncio.run(main())
    """
    done = run(write(program.format("server.run()")), input=b"")
    assert done.stdout == b""
    assert b"LocalProtocolError: run() starts an event loop, and one is already running; use await server.serve()" in done.stderr

    done = run(write(program.format("await server.serve()")), input=lines(INITIALIZE, INITIALIZED, call(1, "shout")))
    *answers, last = done.stdout.splitlines()
    assert [json.loads(answer)["id"] for answer in answers] == [0, 1]
    assert last == b"after it"  # the program has its own output back
    assert b"Here I am" in done.stderr
    assert done.returncode == 0


def test_serving_the_standard_streams_in_a_loop_can_be_recorded_and_cancelled(write, run, tmp_path):
    program = """
        import asyncio
        from twopipes import Server

        server = Server("nested")

        @server.tool
        async def enough() -> str:
            serving.cancel()
            return "enough"

        async def main():
            global serving
            serving = asyncio.ensure_future(server.serve(trace="talk.jsonl"))
            await asyncio.wait([serving])
            print(serving.cancelled())

        asyncio.run(main())
    """
    done = run(write(program), input=lines(INITIALIZE, INITIALIZED, call(1, "enough")))
    assert done.stdout.splitlines()[-1] == b"True"
    assert b'"tools/call"' in (tmp_path / "talk.jsonl").read_bytes() or b"tools/call" in (tmp_path / "talk.jsonl").read_bytes()
    assert done.returncode == 0


# The client


def failed(error, *target) -> str:
    """Return the error message of a failed connection."""

    async def main():
        async with connect(*target, timeouts=Timeouts(connect=60)):
            pass

    with pytest.raises(error) as caught:
        asyncio.run(main())
    return str(caught.value)


def test_a_program_without_its_interpreter(write, monkeypatch):
    server = write(HABITS)
    monkeypatch.chdir(server.parent)
    assert failed(StartFailed, "server.py").startswith(
        "cannot start 'server.py': not found; start it with its interpreter: python server.py "
        "(in Python, use sys.executable for python);"
    )
    assert "make it executable, or start it with its interpreter: python " in failed(StartFailed, server)


def test_a_whole_command_in_one_text():
    assert failed(StartFailed, "python server.py").startswith(
        "cannot start 'python server.py': not found; pass the command as a list of words: ['python', 'server.py']"
    )


def test_a_program_that_never_runs_its_server(write):
    server = write("""
        from twopipes import Server
        server = Server("idle")
    """)
    said = failed(ServerExited, sys.executable, str(server))
    assert said.startswith("the server exited while starting after ")
    assert said.endswith("it wrote nothing to stderr; a server runs until its stdin is closed: does the program call server.run()?")


def test_the_same_mistakes_do_no_harm_in_an_in_process_server():
    """Nothing is guarded there: the streams belong to the caller."""
    server = Server("here")

    @server.tool
    def leave() -> str:
        sys.exit(3)

    async def main():
        async with connect(server) as client:
            first = await client.call_tool("leave")
            second = await client.call_tool("leave")
            return first.text, second.text

    assert asyncio.run(main()) == ("The tool leave failed: SystemExit",) * 2
