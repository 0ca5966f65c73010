"""Questions through ``bridge`` and ``keep`` in real processes: what happens when one of them is killed while a question is open."""

from itertools import count

import pytest

from processes.children import end, is_running, watching
from processes.launching import HOW_KILLED, call, modern, python, text_of

# Notes each run of its tool in the file `runs`, with its process id. Speaks the eras of its first argument.
SERVER = """
    import asyncio, os, sys
    from twopipes import Context, Server

    server = Server("asking", version="1", eras=sys.argv[1])
    together = asyncio.Barrier(2)
    print("started", file=sys.stderr, flush=True)

    async def name(ctx):
        answer = await ctx.elicit("Who?", {"type": "object", "properties": {"name": {"type": "string"}}})
        return answer.content["name"]

    @server.tool
    async def ask(ctx: Context) -> str:
        with open("runs", "a") as runs:
            print(os.getpid(), file=runs)
        return await name(ctx)

    @server.tool
    async def meet(ctx: Context) -> str:
        await together.wait()
        try:
            return await name(ctx)
        except Exception as error:
            return str(error)
        finally:
            await together.wait()

    server.run()
"""
# A legacy server that asks for the roots after the handshake, as many do, and returns them from each call.
ASKS_FOR_ROOTS = """
    import json, sys

    def send(**message):
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

    roots = "none"
    for line in sys.stdin:
        message = json.loads(line)
        match message.get("method"):
            case "initialize":
                info = {"name": "roots", "version": "1"}
                send(id=message["id"], result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info})
            case "notifications/initialized":
                send(id="roots", method="roots/list")
            case "tools/call":
                send(id=message["id"], result={"content": [{"type": "text", "text": roots}]})
            case None if message["id"] == "roots":
                roots = message["result"]["roots"][0]["uri"]
            case _ if "id" in message:
                send(id=message["id"], error={"code": -32601, "message": "no"})
"""
# How a server that was killed is described.
FORMS = {"elicitation": {"form": {}}}
ANNA = {"action": "accept", "content": {"name": "Anna"}}


def gateway(kind, *server):
    return python("-m", "twopipes", *kind.split(), "--", *python(*server))


def runs(tmp_path):
    """Return the process of each run of the tool."""
    return [int(line) for line in (tmp_path / "runs").read_text().split()]


def call_modern(id_, tool="ask", **retry):
    return modern(id_, "tools/call", FORMS, name=tool, arguments={}, **retry)


def park(host, id_=1):
    """Call the tool as a modern host, and return the members of its retry."""
    result = host.ask(call_modern(id_))["result"]
    assert result["resultType"] == "input_required"
    return {"requestState": result["requestState"], "inputResponses": dict.fromkeys(result["inputRequests"], ANNA)}


def ask_legacy(host, id_=1):
    """Call the tool as a legacy host, and return the id of its question."""
    host.initialize(**FORMS)
    host.send(call(id_, "ask"))
    while (question := host.receive()).get("method") != "elicitation/create":
        pass
    return question["id"]


gateways = pytest.mark.parametrize("kind", ["bridge", "keep"])


@gateways
def test_a_parked_call_continues_in_the_same_process(kind, launch, write, tmp_path):
    host = launch(gateway(kind, write(SERVER), "legacy"))
    assert text_of(host.ask(call_modern(2, **park(host)))) == "Anna"
    host.finish()
    assert len(runs(tmp_path)) == 1


@gateways
def test_a_server_killed_while_a_modern_host_answers_is_an_error_of_the_retry(kind, launch, write, tmp_path):
    host = launch(gateway(kind, write(SERVER), "legacy"))
    retry = park(host)
    (server,) = runs(tmp_path)
    with watching(server):
        end(server)
    error = host.ask(call_modern(2, **retry))["error"]
    assert HOW_KILLED in error["message"]
    assert len(runs(tmp_path)) == 1  # it was not run again
    assert text_of(host.ask(call_modern(4, **park(host, 3)))) == "Anna"  # and the next call succeeds
    host.finish()
    assert len(set(runs(tmp_path))) == 2


@gateways
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_server_killed_while_a_legacy_host_answers_is_an_error_at_once(kind, era, launch, write, tmp_path):
    """The question is withdrawn. A modern server has returned its question, so that its end does not matter."""
    host = launch(gateway(kind, write(SERVER), era))
    question = ask_legacy(host)
    (server,) = runs(tmp_path)
    end(server)
    if era == "legacy":
        error = host.receive_response(1)["error"]
        assert HOW_KILLED in error["message"]
        assert len(runs(tmp_path)) == 1
    else:
        host.err.until("started")
        host.err.until("started")
        host.send({"jsonrpc": "2.0", "id": question, "result": ANNA})
        assert text_of(host.receive_response(1)) == "Anna"
    host.finish()


@gateways
def test_a_retry_after_a_restart_of_the_gateway_does_not_run_the_call_again(kind, launch, write, tmp_path):
    first = launch(gateway(kind, write(SERVER), "legacy"))
    retry = park(first)
    first.kill()
    first.wait()
    second = launch(gateway(kind, tmp_path / "server.py", "legacy"))
    error = second.ask(call_modern(2, **retry))["error"]
    assert error["code"] == -32602
    assert "the process that ran it is gone" in error["message"]
    assert "it was not run again" in error["message"]
    second.finish()
    assert len(runs(tmp_path)) == 1


@gateways
@pytest.mark.parametrize("ask", [park, ask_legacy])
def test_no_server_outlives_a_gateway_that_is_killed_with_an_open_question(kind, ask, launch, write, tmp_path):
    host = launch(gateway(kind, write(SERVER), "legacy"))
    ask(host)
    (server,) = runs(tmp_path)
    with watching(server):
        host.kill()
        host.wait()
    assert not is_running(server)


@gateways
@pytest.mark.parametrize("ask", [park, ask_legacy])
def test_a_gateway_with_an_open_question_ends_with_its_host(kind, ask, launch, write, tmp_path):
    host = launch(gateway(kind, write(SERVER), "legacy"))
    ask(host)
    (server,) = runs(tmp_path)
    with watching(server):
        host.end_input()
        assert host.wait() == 0
    assert not is_running(server)


@gateways
@pytest.mark.parametrize("front", ["legacy", "modern"])
def test_the_roots_that_a_server_asks_for_after_the_handshake(kind, front, launch, write):
    host = launch(gateway(kind, write(ASKS_FOR_ROOTS)))
    roots = {"roots": [{"uri": "file:///home/anna"}]}
    if front == "legacy":
        host.initialize(roots={})
        while (question := host.receive()).get("method") != "roots/list":
            pass
        host.send({"jsonrpc": "2.0", "id": question["id"], "result": roots})
        assert text_of(host.ask(call(1, "any"))) == "file:///home/anna"
    else:
        # The server may ask before or after it answers a call that is on its way. The question then comes with the next call.
        declared, found, retry, ids = {"roots": {}}, "none", {}, count(1)
        while found == "none":
            result = host.ask(modern(next(ids), "tools/call", declared, name="any", arguments={}, **retry))["result"]
            if result["resultType"] == "complete":
                found, retry = result["content"][0]["text"], {}
            else:
                ((key, question),) = result["inputRequests"].items()
                assert question["method"] == "roots/list"
                retry = {"requestState": result["requestState"], "inputResponses": {key: roots}}
        assert found == "file:///home/anna"
    host.finish()


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("isolation", ["", "--isolate"])
def test_two_hosts_that_are_asked_at_the_same_time(era, isolation, listening, connect, write):
    """Their questions are refused if they share a legacy server. There the tool waits until both calls have arrived."""
    source = SERVER.replace("Barrier(2)", "Barrier(1)") if isolation else SERVER
    served, address = listening(gateway(f"bridge --unix front.sock {isolation}", write(source), era))
    one, two = connect(address), connect(address)
    one.send(call_modern(1, "meet"))
    two.send(call_modern(1, "meet"))
    first, second = one.receive_response(1)["result"], two.receive_response(1)["result"]
    if era == "legacy" and not isolation:
        assert "--isolate" in first["content"][0]["text"]
        assert "--isolate" in second["content"][0]["text"]
    elif isolation:
        for host, result in ((one, first), (two, second)):
            retry = {"requestState": result["requestState"], "inputResponses": dict.fromkeys(result["inputRequests"], ANNA)}
            assert text_of(host.ask(call_modern(2, "meet", **retry))) == "Anna"
    else:
        assert first["resultType"] == second["resultType"] == "input_required"
    served.stop()


def test_a_gateway_before_a_gateway(launch, write):
    """Questions cross both, whatever each of them speaks."""
    inner = gateway("bridge --era legacy", write(SERVER), "modern")
    host = launch(python("-m", "twopipes", "bridge", "--", *inner))
    assert text_of(host.ask(call_modern(2, **park(host)))) == "Anna"
    host.finish()
