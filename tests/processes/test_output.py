"""Standard output, which is the wire, and stderr, which is for people."""

import json
import os
import re
import select
import subprocess
import sys

import pytest

from processes.launching import EXAMPLES, INITIALIZE, INITIALIZED, NET, PING, call, lines, modern, python, text_of
from twopipes import trace

if sys.platform != "win32":
    import pty

# Writes to standard output at every opportunity, in every way.
NOISY = """
    import atexit, ctypes, os, subprocess, sys
    from twopipes import Server
    print("banner")
    libc = ctypes.CDLL(None)
    libc.puts(b"banner of C")
    server = Server("noisy")
    atexit.register(print, "at exit")

    @server.tool
    async def noise() -> str:
        print("in the loop", flush=True)
        return "quiet"

    @server.tool
    def noise_in_a_thread() -> str:
        print("in a thread")
        sys.__stdout__.write("by the original\\n")
        os.write(1, b"by its number\\n")
        os.system("echo by a shell")
        subprocess.run(["echo", "by a child"])
        libc.puts(b"by C")
        return "quiet"

    @server.tool
    def listen() -> str:
        '''Reads what is not for it to read.'''
        return repr((sys.stdin.read(), subprocess.run(["cat"], capture_output=True).stdout))

    if __name__ == "__main__":
        server.run()
        print("after run")
"""
# Text that is printed while the server runs, or before that into a buffer.
SAID = [
    "banner",
    "banner of C",
    "in the loop",
    "in a thread",
    "by the original",
    "by its number",
    "by a shell",
    "by a child",
    "by C",
]
CALLS = [INITIALIZE, INITIALIZED, call(1, "noise"), call(2, "noise_in_a_thread"), call(3, "listen"), call(4, "noise")]


@pytest.mark.parametrize("run_by", ["python", "twopipes run", "twopipes run, by the file itself"])
def test_nothing_but_messages_on_standard_output(run_by, write, run):
    """FR-04, defect 7 of the peers: before run(), in tools, from children, from C; with `twopipes run` until the exit."""
    server = write(NOISY.replace('if __name__ == "__main__":', "if True:") if run_by.endswith("itself") else NOISY)
    done = run(python(server) if run_by == "python" else python("-m", "twopipes", "run", server), input=lines(*CALLS))
    messages = done.stdout.splitlines()
    last_words = ["after run", "at exit"]
    if run_by == "python":
        # The program continues after run() with its own output again: every message comes before.
        assert [line.decode() for line in messages[-2:]] == last_words
        del messages[-2:]
        last_words = []
    elif run_by == "twopipes run":
        last_words = ["at exit"]
    answers = {answer["id"]: answer for answer in map(json.loads, messages)}
    assert {key: text_of(answer) for key, answer in answers.items() if key} == {
        1: "quiet",
        2: "quiet",
        3: "('', b'')",
        4: "quiet",
    }
    said = done.stderr.decode().splitlines()
    assert {*SAID, *last_words} <= {*said}
    if run_by == "python":
        assert not {"after run", "at exit"} & {*said}
    # Each place is named once, however often it prints.
    number = NOISY.splitlines().index('        print("in the loop", flush=True)')
    place = f"server.py:{number} "
    assert sum("went to stderr, because stdout carries the protocol" in line and place in line for line in said) == 1
    assert said.count("in the loop") == 2
    assert done.returncode == 0


# Shows descriptors 0 and 1 before, during and after a server runs; the second of two servers gets EOF.
TWICE = """
    import os, sys
    from twopipes import Server
    def ends() -> list[tuple[int, int]]:
        return [(os.fstat(fd).st_dev, os.fstat(fd).st_ino) for fd in (0, 1)]
    def compare() -> bool:
        return ends() == before
    before = ends()
    streams = sys.stdin, sys.stdout, sys.stderr, sys.stdout.fileno()
    server = Server("twice", tools=[compare])
    {first}
    assert compare()
    print("between", flush=True)
    server.run()
    assert compare()
    assert streams == (sys.stdin, sys.stdout, sys.stderr, sys.stdout.fileno())
    assert sys.stdin.read() == ""
    print("after")
"""


@pytest.mark.parametrize("ending", ["normally", "by an exception", "before it has begun"])
def test_after_run_standard_input_and_output_are_restored(ending, write, run):
    first = {
        "normally": "server.run()",
        "by an exception": """
    from contextlib import asynccontextmanager
    @asynccontextmanager
    async def broken(server):
        yield
        raise KeyError("at the end")
    server._lifespan = broken
    try:
        server.run()
    except KeyError:
        server._lifespan = None""",
        "before it has begun": """
    try:
        server.run(trace="/")
    except Exception as error:
        print(error, file=sys.stderr)
    else:
        raise AssertionError""",
    }[ending]
    done = run(write(TWICE.format(first=first)), input=lines(INITIALIZE, INITIALIZED, call(1, "compare")))
    said = done.stdout.decode().splitlines()
    assert done.returncode == 0, done.stderr.decode()
    assert said.pop() == "after"
    assert said.pop(0 if ending == "before it has begun" else -1) == "between"
    (answered,) = (message for message in map(json.loads, said) if message["id"] == 1)
    assert answered["result"]["structuredContent"] == {"result": False}  # while it serves, they are not usable


def test_standard_output_stays_guarded_while_a_tool_runs_in_its_thread(write, launch):
    """FR-04: a thread cannot be stopped, and this one prints long after the server has ended."""
    program = """
        import sys, threading
        from twopipes import Server, ServerSettings
        go_on, printed = threading.Event(), threading.Event()

        def stuck() -> None:
            print("at work", flush=True)
            go_on.wait()
            print("too late", flush=True)
            printed.set()

        Server("stuck", tools=[stuck], settings=ServerSettings(drain=0)).run()
        go_on.set()
        printed.wait()
        print("after run")
    """
    child = launch(write(program))
    child.initialize()
    child.send(call(1, "stuck"))
    child.err.until("at work")
    child.end_input()
    said = child.ended()
    assert [message["error"]["message"] for message in said] in ([], ["the handler was cancelled"])
    assert {"too late", "after run"} <= {*child.complaints().splitlines()}


def test_twopipes_run_guards_even_a_flushed_banner(write, run):
    """FR-04: the wire is already guarded when the module is imported."""
    program = """
        import os
        from twopipes import Server
        print("banner", flush=True)
        os.write(1, b"raw banner\\n")
        server = Server("bannered")
    """
    done = run(python("-m", "twopipes", "run", write(program)), input=lines(INITIALIZE))
    assert json.loads(done.stdout)["id"] == 0
    assert {"banner", "raw banner"} <= {*done.stderr.decode().splitlines()}
    assert done.returncode == 0


def test_everything_on_standard_output_is_a_message(launch):
    """FR-04: start-up, bad input, a tool that breaks, shutdown."""
    child = launch(EXAMPLES / "everything.py")
    child.send("rubbish", "", '{"jsonrpc":"2.0"}', INITIALIZE, INITIALIZED, call(1, "boom"), call(2, "fail"), call(3, "nothing"))
    said = [child.receive() for _ in range(6)] + child.ended_by(child.end_input, tracebacks=1)
    assert all(message["jsonrpc"] == "2.0" and message.keys() & {"result", "error", "method"} for message in said)
    assert len(said) == 6


def test_the_traceback_of_a_tool_is_for_people(launch):
    """FR-06: the model gets little, stderr everything."""
    child = launch(EXAMPLES / "everything.py")
    child.initialize()
    answer = child.ask(call(1, "boom"))
    assert answer["result"]["isError"] is True
    assert "secret details" not in json.dumps(answer)
    assert child.err.next().rstrip() == b"Error: tools/call boom failed"
    child.err.until("RuntimeError: secret details")
    assert child.ask(PING)["result"] == {}
    child.ended_by(child.end_input, tracebacks=1)


# stderr without a reader


FLOOD = """
    import logging, os, sys
    from twopipes import Server
    logging.basicConfig(stream=sys.stderr, level="INFO")
    server = Server("flood")

    @server.tool
    async def flood() -> str:
        for number in range(10_000):
            logging.info("%d %s", number, "x" * 1000)
        return "said"

    @server.tool
    def flood_in_a_thread() -> str:
        for number in range(10_000):
            print(number, "x" * 1000)
        return "said"

    server.run()
"""


@pytest.mark.parametrize("tool", ["flood", "flood_in_a_thread"])
def test_ten_megabytes_on_an_unread_stderr_do_not_delay_the_protocol(tool, write, environment):
    """FR-06: some hosts connect a pipe and never read it."""
    pipe = subprocess.PIPE
    with subprocess.Popen(python(write(FLOOD)), stdin=pipe, stdout=pipe, stderr=pipe, env=environment) as process:
        process.stdin.write(lines(INITIALIZE, INITIALIZED, call(1, tool), PING))
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.wait(NET) == 0
        kept = process.stderr.read()
    assert {answer["id"] for answer in answers} == {0, 1, "ping"}
    assert len(kept) < 2_000_000


def test_a_closed_stderr_delays_nothing(write, run):
    done = run(["sh", "-c", f"exec {' '.join(python(write(NOISY)))} 2>&-"], input=lines(*CALLS))
    messages = done.stdout.splitlines()[:-2]  # and the output of the program after it has served
    assert {answer["id"] for answer in map(json.loads, messages)} == {0, 1, 2, 3, 4}
    assert done.returncode == 0


def test_stderr_is_utf8_where_the_host_drops_the_locale(write, run):
    """FR-06: UTF-8, whatever the locale."""
    program = """
        from twopipes import Server
        server = Server("čapek")

        @server.tool
        def say(text: str) -> str:
            print(text)
            return text

        server.run()
    """
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = run(write(program), input=lines(INITIALIZE, INITIALIZED, call(1, "say", text="naïve 🦜\u2028")), env=environment)
    first, second = map(json.loads, done.stdout.decode().split("\n")[:2])
    assert first["result"]["serverInfo"]["name"] == "čapek"
    assert text_of(second) == "naïve 🦜\u2028"
    assert "naïve 🦜" in done.stderr.decode()


# Blocking handlers


BLOCKER = """
    import subprocess, sys, time
    from pathlib import Path
    from twopipes import Server, ServerSettings
    server = Server("blocker", settings=ServerSettings(blocked_after=0.5))

    @server.tool
    async def block(path: str) -> str:
        while not Path(path).exists():
            time.sleep(0.005)
        return "done"

    @server.tool
    def block_a_thread(path: str) -> str:
        while not Path(path).exists():
            time.sleep(0.005)
        return "done"

    if __name__ == "__main__":
        server.run()
"""


@pytest.mark.parametrize("over", ["stdio", "unix"])
def test_a_coroutine_that_blocks_the_loop_is_named_once(over, write, listening, connect, tmp_path):
    server = write(BLOCKER)
    gate = tmp_path / "gate"
    if over == "stdio":
        child = wire = listening.launch(server)
    else:
        child, address = listening(python("-m", "twopipes", "run", server, "--unix", tmp_path / "s"))
        wire = connect(address)
    wire.initialize()
    # The imports of the first call are done before the call that blocks.
    wire.send(call(0, "no such tool"))
    wire.receive_response(0)
    for number in (1, 2):
        wire.send(call(number, "block", path=str(gate)))
        if number == 1:
            said = child.err.until("has blocked the server for 0.5 s")
            # The line of the author's own code, not of the library that it called, in the format of the guard.
            assert re.search(rf"block at {server.name}:[89] ", said)
        gate.touch()
        assert text_of(wire.receive_response(number)) == "done"
    child.stop()
    assert sum(b"has blocked the server" in line and b"block at" in line for line in child.err.seen) == 1


def test_a_function_that_blocks_delays_no_call_and_is_not_named(write, launch, tmp_path):
    gate = tmp_path / "gate"
    child = launch(write(BLOCKER))
    child.initialize()
    child.send(call(1, "block_a_thread", path=str(gate)))
    assert child.ask(PING)["result"] == {}
    gate.touch()
    assert text_of(child.receive_response(1)) == "done"
    child.finish()
    # A busy machine may block the loop that long, which is reported, but not as the fault of the function.
    assert "block_a_thread" not in child.complaints()


# Traces


TALK = [modern("a", "server/discover"), modern(2, "tools/call", name="greet", arguments={"name": "é"})]


def shown(text):
    return [(line[8], json.loads(line[10:])) for line in text.splitlines() if line.startswith("[TRACE] ")]


def recorded(file):
    return [(entry.kind, json.loads(entry.data)) for entry in trace.read(file).whole_lines() if isinstance(entry, trace.Line)]


@pytest.mark.parametrize("last_newline", [True, False])
def test_a_trace_on_stderr(last_newline, run):
    """TWOPIPES_TRACE=1: each message, both ways, in order."""
    said = lines(*TALK)
    done = run(EXAMPLES / "hello.py", input=said if last_newline else said[:-1], env={"TWOPIPES_TRACE": "1"})
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    seen = shown(done.stderr.decode())
    assert [message for way, message in seen if way == ">"] == TALK
    assert [message for way, message in seen if way == "<"] == answers
    assert len(answers) == 2


@pytest.mark.parametrize("asked_by", ["TWOPIPES_TRACE", "--trace", "--trace=", "run(trace=)"])
def test_a_trace_in_a_file(asked_by, run, write, tmp_path):
    file = tmp_path / "wire.log"
    file.write_text("what was there\n")
    environment = {}
    if asked_by == "TWOPIPES_TRACE":
        command, environment = python(EXAMPLES / "hello.py"), {"TWOPIPES_TRACE": str(file)}
    elif asked_by == "run(trace=)":
        command = python(
            write(
                f"""
                from twopipes import Server
                def greet(name: str) -> str:
                    return name
                Server("traced", tools=[greet]).run(trace={str(file)!r})
                """
            )
        )
    else:
        option = ["--trace", file] if asked_by == "--trace" else [f"--trace={file}"]
        command = python("-m", "twopipes", "run", EXAMPLES / "hello.py", *option)
    done = run(command, input=lines(*TALK), env=environment)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "wire-1.log").read_text() == "what was there\n"
    assert sorted(recorded(file), key=lambda entry: entry[0] == "<") == [
        *((">", message) for message in TALK),
        *(("<", message) for message in answers),
    ]


def test_a_line_that_comes_in_many_pieces_is_traced_whole(run, tmp_path):
    asked = modern(1, "tools/call", name="greet", arguments={"name": "x" * 5_000_000})
    file = tmp_path / "wire.log"
    done = run(EXAMPLES / "hello.py", input=lines(asked), env={"TWOPIPES_TRACE": str(file)})
    assert recorded(file) == [(">", asked), ("<", json.loads(done.stdout))]


def test_no_trace_is_written_by_default(run):
    done = run(EXAMPLES / "hello.py", input=lines(*TALK), env={"TWOPIPES_TRACE": "0"})
    assert done.stderr == b""


def test_an_unwritable_trace_of_the_environment_does_not_stop_the_server(run, tmp_path):
    done = run(EXAMPLES / "hello.py", input=lines(*TALK), env={"TWOPIPES_TRACE": str(tmp_path / "no" / "such" / "folder")})
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr.decode().startswith("Error: the trace cannot be written to ")
    assert done.stderr.count(b"\n") == 1


def test_an_unwritable_trace_of_an_option_is_an_error(run, tmp_path):
    done = run(python("-m", "twopipes", "run", EXAMPLES / "hello.py", "--trace", tmp_path), input=lines(*TALK))
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().startswith("Error: the trace cannot be written to ")


# A terminal


def test_a_hint_on_a_terminal_explains_what_the_program_waits_for(environment, tmp_path):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        python(EXAMPLES / "hello.py"), stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    os.close(theirs)
    with process:
        assert process.stderr.readline().startswith(b"hello is an MCP server: it waits for a host to write")
        os.write(ours, lines(PING))
        assert json.loads(process.stdout.readline())["id"] == "ping"
        os.write(ours, b"\x04")  # Ctrl-D
        assert process.stdout.read() == b""
        assert process.stderr.read() == b""
        assert process.wait(NET) == 0
    os.close(ours)


def test_ctrl_c_on_a_terminal_ends_the_server_without_a_traceback(environment):
    """The terminal itself sends the signal to the process that it controls."""
    pid, ours = pty.fork()
    if pid == 0:  # pragma: no cover - another program from here on
        os.execve(python()[0], python(EXAMPLES / "hello.py"), environment)
    seen = b""
    interrupted = False
    try:
        while select.select([ours], [], [], NET)[0]:
            try:
                seen += os.read(ours, 1000)
            except OSError:  # the end of a terminal
                break
            if b"Press Ctrl-D to end it." in seen and not interrupted:
                os.write(ours, lines(PING))
            if b'"result":{}' in seen and not interrupted:
                interrupted = True
                os.write(ours, b"\x03")
    finally:
        os.close(ours)
        _, status = os.waitpid(pid, 0)
    assert interrupted
    assert os.waitstatus_to_exitcode(status) == 0
    assert b"Traceback" not in seen
