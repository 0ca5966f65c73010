"""``twopipes bridge`` in real processes, over stdio and sockets: every form, what passes, and how it ends."""

import json

import pytest

from processes.children import is_running, watching
from processes.launching import ENDINGS, EXAMPLES, call, modern, python, request, text_of

EVERYTHING = python(EXAMPLES / "everything.py")
# Speaks the eras of its first argument.
SERVER = """
    import asyncio, os, sys
    from twopipes import Context, Server

    server = Server("behind", version="1", eras=sys.argv[1])

    @server.tool
    def pid() -> int:
        return os.getpid()

    @server.tool
    def variable(name: str) -> str:
        return os.environ.get(name, "none")

    @server.tool
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("Which?", {"type": "object", "properties": {"name": {"type": "string"}}})
        return f"{answer.action} {answer.content}"

    @server.tool
    async def wait(ctx: Context) -> str:
        await ctx.progress(1, 2)
        await asyncio.Event().wait()

    @server.tool
    def crash() -> None:
        print("out of memory, sorry", file=sys.stderr, flush=True)
        os._exit(7)

    server.run()
"""
# Writes noise to its stdout before it serves.
NOISY = (
    """
    import os
    os.write(1, b"Welcome to the server!\\n")
"""
    + SERVER
)


def twopipes(*words):
    return python("-m", "twopipes", *map(str, words))


def bridge(*words):
    return twopipes("bridge", *words)


def said(run, *words, code=0, **options):
    done = run(twopipes(*words), **options)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout.decode()


def number(answer):
    """Return the number that a tool returned."""
    return int(text_of(answer))


def modern_call(id_, name, capabilities=None, /, **arguments):
    return modern(id_, "tools/call", capabilities, name=name, arguments=arguments)


ASKED = {"elicitation": {"form": {}}}


# Stdio to stdio: the era alone


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_server_of_one_era_serves_clients_of_both(era, run, write):
    words = ["--", *bridge("--", *python(write(SERVER), era))]
    assert "(modern, 2026-07-28)" in said(run, "list", *words)
    assert "(legacy, 2025-11-25)" in said(run, "list", "--era", "legacy", *words)
    assert "(legacy, 2024-11-05)" in said(run, "list", "--revision", "2024-11-05", *words)


@pytest.mark.parametrize("front", ["legacy", "modern"])
@pytest.mark.parametrize("back", ["legacy", "modern"])
def test_a_question_crosses_in_each_combination_of_eras(front, back, run, write):
    words = ["--", *bridge("--", *python(write(SERVER), back))]
    assert said(run, "call", "ask", "--era", front, "--answer", "name=Ada", *words) == "accept {'name': 'Ada'}\n"


def test_the_front_offers_the_era_of_the_option(launch, write):
    legacy = launch(bridge("--era", "legacy", "--", *python(write(SERVER), "modern")))
    assert "error" in legacy.ask(modern("d", "server/discover"))
    assert legacy.initialize()["result"]["serverInfo"]["name"] == "behind"
    legacy.finish()
    only_modern = launch(bridge("--era", "modern", "--", *python(write(SERVER), "legacy")))
    assert only_modern.ask(modern("d", "server/discover"))["result"]["supportedVersions"] == ["2026-07-28"]
    assert "error" in only_modern.initialize()
    only_modern.finish()


def test_stdout_carries_messages_only_and_stderr_passes(launch, write):
    child = launch(bridge("--", *python(write(NOISY), "both")))
    child.initialize()
    assert "error" in child.ask(call(1, "crash"))
    child.finish()  # every line of its stdout was JSON
    assert "out of memory, sorry\n" in child.complaints()


def test_the_server_gets_the_environment_of_the_bridge(launch, write):
    child = launch(bridge("--", *python(write(SERVER), "both")), env={"API_KEY": "k"})
    assert text_of(child.ask(modern_call(1, "variable", name="API_KEY"))) == "k"
    child.finish()


def test_the_client_commands(run):
    words = ["--", *bridge("--", *EVERYTHING)]
    assert said(run, "list", *words).startswith("everything 1.0")
    for era in ("modern", "legacy"):
        assert said(run, "call", "add", "a=1", "b=2", "--era", era, *words) == "3\n"
        assert said(run, "read", "note://first", "--era", era, *words) == said(run, "read", "note://first", "--", *EVERYTHING)
        assert "user" in said(run, "prompt", "review", "code=x", "--era", era, *words)
    assert "No problem found." in said(run, "doctor", "--quick", *words)


def test_a_trace_has_the_messages_with_the_server(launch, run, write, tmp_path):
    child = launch(bridge("--trace", "t.jsonl", "--", *python(write(SERVER), "legacy")))
    number(child.ask(modern_call(1, "pid")))
    child.finish()
    shown = said(run, "view", "t.jsonl")
    assert "initialize" in shown
    assert "tools/call" in shown
    refused = run(bridge("--trace", "/nowhere/t.jsonl", "--", *EVERYTHING))
    assert refused.returncode == 2
    assert b"the trace cannot be written to /nowhere/t.jsonl" in refused.stderr


# Crashes


def test_a_crash_is_reported_at_once_and_the_next_call_succeeds(launch, write):
    child = launch(bridge("--", *python(write(SERVER), "modern")))
    first = number(child.ask(modern_call(1, "pid")))
    error = child.ask(modern_call(2, "crash"))["error"]
    assert "exit code 7" in error["message"]
    assert "out of memory, sorry" in error["message"]
    assert number(child.ask(modern_call(3, "pid"))) != first
    child.finish()


def test_a_server_that_cannot_start_is_reported_to_the_host(launch, write):
    broken = write('import sys; sys.exit("no database")\n')
    child = launch(bridge("--", *python(broken)))
    error = child.ask(
        request(0, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "t", "version": "1"})
    )
    assert "no database" in error["error"]["message"]
    assert "no database" in child.ask(modern_call(1, "pid"))["error"]["message"]
    child.finish()


def test_a_socket_without_a_server_is_reported_to_the_host(launch, tmp_path):
    child = launch(bridge(f"unix:{tmp_path}/none.sock"))
    assert "none.sock" in child.ask(modern_call(1, "pid"))["error"]["message"]
    child.finish()


# Sockets


def test_a_unix_socket_and_a_tcp_port(run, listening, write, tmp_path):
    served, address = listening(bridge("--unix", "front.sock", "--", *python(write(SERVER), "legacy")))
    assert address == f"unix:{tmp_path / 'front.sock'}"
    second, port = listening(bridge("--tcp", "127.0.0.1:0", address))
    third = bridge(port.replace("tcp ", "tcp://"))
    for era in ("modern", "legacy"):
        assert said(run, "call", "ask", "--era", era, "--answer", "name=Ada", "--", *third) == "accept {'name': 'Ada'}\n"
    for each in (second, served):
        assert each.stop() == []


def test_an_address_in_use_is_refused(run, listening, write):
    served, address = listening(bridge("--unix", "front.sock", "--", *EVERYTHING))
    refused = run(bridge("--unix", "front.sock", "--", *EVERYTHING))
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"Error: cannot listen on {address}: another server is listening there".encode())
    assert refused.stdout == b""
    served.stop()


def test_clients_share_one_process_unless_they_are_isolated(listening, connect, write):
    server = python(write(SERVER), "both")
    shared, address = listening(bridge("--unix", "shared.sock", "--", *server))
    one, two = connect(address), connect(address)
    assert number(one.ask(modern_call(1, "pid"))) == number(two.ask(modern_call(1, "pid")))
    isolated, address = listening(bridge("--isolate", "--unix", "isolated.sock", "--", *server))
    one, two = connect(address), connect(address)
    first, second = number(one.ask(modern_call(1, "pid"))), number(two.ask(modern_call(1, "pid")))
    assert first != second
    assert number(one.ask(modern_call(2, "pid"))) == first
    with watching(first):  # the process of a session ends with it
        one.dispose()
    assert is_running(second)
    for each in (shared, isolated):
        each.stop()
    assert not is_running(second)


# The end


@pytest.mark.parametrize("ending", ["EOF", *ENDINGS])
def test_no_process_outlives_the_bridge(ending, launch, write):
    child = launch(bridge("--", *python(write(SERVER), "both")))
    waiting = modern_call(2, "wait")
    waiting["params"]["_meta"]["progressToken"] = "p"
    pid = number(child.ask(modern_call(1, "pid")))
    child.send(waiting)
    assert child.receive()["method"] == "notifications/progress"
    with watching(pid):
        if ending == "EOF":
            child.end_input()
            assert child.wait() == 0
        else:
            child.end_by(ending)


def test_what_was_sent_before_the_end_of_the_input_is_answered(run, write):
    sent = "".join(json.dumps(modern_call(each, "pid")) + "\n" for each in range(5))
    done = run(bridge("--", *python(write(SERVER), "legacy")), input=sent.encode())
    assert done.returncode == 0
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(answer["id"] for answer in answers) == [0, 1, 2, 3, 4]
    assert len({number(answer) for answer in answers}) == 1
