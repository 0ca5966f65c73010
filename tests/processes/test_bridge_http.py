"""``twopipes bridge`` with HTTP on either side, in real processes."""

import json

import pytest

from http_server import RawConnection
from processes.children import is_running, watching
from processes.launching import ENDINGS, EXAMPLES, INITIALIZE, INITIALIZED, call
from processes.test_bridge import EVERYTHING, SERVER, bridge, modern_call, number, python, said, twopipes
from processes.test_http_run import modern_headers, open_stream

GUARDED = """
    from twopipes import Context, Server
    from twopipes.http import Identity

    server = Server("guarded", version="1")

    async def verify(token: str) -> Identity | None:
        return Identity("ada") if token == "s3cret" else None

    @server.tool
    def whoami(ctx: Context) -> str:
        return ctx.identity.subject

    server.run(http="127.0.0.1:0", auth=verify)
"""


@pytest.fixture
def serve(listening):
    """Start a bridge that listens over HTTP; return its process and its URL."""

    def serve(*words, **options):
        child, url = listening(bridge("--http", "0", *words), **options)
        assert url.startswith("http://127.0.0.1:")
        return child, url

    return serve


def end(child):
    child.stop()


def port_of(url):
    return int(url.partition("/mcp")[0].rpartition(":")[2])


def post(url, message, headers=(), **options):
    with RawConnection(port_of(url)) as connection:
        return connection.request("POST", "/mcp", dict(headers), json.dumps(message).encode(), **options)


def ask(url, message):
    """Send a modern request, and return its response."""
    return post(url, message, modern_headers(message)).json


def open_session(url):
    """Open a legacy session, and return the headers of its requests."""
    opened = post(url, INITIALIZE)
    headers = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}
    assert post(url, INITIALIZED, headers).status == 202
    return headers


# Clients over HTTP


@pytest.mark.parametrize("back", ["legacy", "modern"])
def test_a_stdio_server_over_http(back, run, serve, write):
    child, url = serve("--", *python(write(SERVER), back))
    assert "(modern, 2026-07-28)" in said(run, "list", url)
    assert "(legacy, 2025-03-26)" in said(run, "list", "--revision", "2025-03-26", url)
    pids = set()
    for era in ("modern", "legacy"):
        assert said(run, "call", "ask", url, "--era", era, "--answer", "name=Ada") == "accept {'name': 'Ada'}\n"
        pids.add(said(run, "call", "pid", url, "--era", era))
    assert len(pids) == 1  # one process for all
    with watching(int(pids.pop())):
        end(child)


def test_doctor_and_check(run, serve):
    child, url = serve("--", *EVERYTHING)
    assert "No problem found." in said(run, "doctor", "--quick", url)
    assert "0 failed" in said(run, "check", "--only", "JR-01,HT-10,HT-12", url)
    end(child)


def test_legacy_sessions_have_their_own_processes_with_isolate(serve, write):
    child, url = serve("--isolate", "--", *python(write(SERVER), "legacy"))
    one, two = open_session(url), open_session(url)
    pids = [number(post(url, call(1, "pid"), session).json) for session in (one, two)]
    assert pids[0] != pids[1]
    assert number(post(url, call(2, "pid"), one).json) == pids[0]
    # Requests without a session share a process; there is never one per request.
    modern = {number(ask(url, modern_call(each, "pid"))) for each in range(3)}
    assert len(modern) == 1
    with watching(pids[0]), RawConnection(port_of(url)) as connection:
        assert connection.request("DELETE", "/mcp", one).status in {200, 204}
    assert is_running(pids[1])
    end(child)
    assert not is_running(pids[1])


def test_a_crash_is_an_error_and_the_next_call_succeeds(serve, write):
    child, url = serve("--", *python(write(SERVER), "modern"))
    first = number(ask(url, modern_call(1, "pid")))
    message = ask(url, modern_call(2, "crash"))["error"]["message"]
    assert "exit code 7" in message
    assert "out of memory, sorry" in message
    assert number(ask(url, modern_call(3, "pid"))) != first
    end(child)


@pytest.mark.parametrize("ending", ENDINGS)
def test_no_process_outlives_the_bridge(ending, serve, write):
    child, url = serve("--", *python(write(SERVER), "both"))
    pid = number(ask(url, modern_call(1, "pid")))
    waiting = modern_call(2, "wait")
    waiting["params"]["_meta"]["progressToken"] = "p"
    with watching(pid), open_stream(port_of(url), waiting) as stream:
        assert stream.read_event()["method"] == "notifications/progress"
        child.end_by(ending)


def test_a_client_that_goes_away_cancels_its_call(serve, write, tmp_path):
    server = """
        import asyncio, os, sys
        from twopipes import Context, Server

        server = Server("behind")

        @server.tool
        async def wait(ctx: Context) -> str:
            await ctx.progress(1, 2)
            try:
                await asyncio.Event().wait()
            finally:
                print("the call was cancelled", file=sys.stderr, flush=True)

        server.run()
    """
    child, url = serve("--", *python(write(server)))
    waiting = modern_call(1, "wait")
    waiting["params"]["_meta"]["progressToken"] = "p"
    with open_stream(port_of(url), waiting) as stream:
        assert stream.read_event()["method"] == "notifications/progress"
    child.err.until("the call was cancelled")
    end(child)


def test_hosts_and_origins(serve):
    child, url = serve("--allow-host", "mcp.example.com", "--allow-origin", "https://app.example.com", "--", *EVERYTHING)
    message = modern_call(1, "echo", text="hi")
    for headers, status in (
        ({"Host": "mcp.example.com"}, 200),
        ({"Host": "evil.example.com"}, 403),
        ({"Origin": "https://app.example.com"}, 200),
        ({"Origin": "https://evil.example.com"}, 403),
    ):
        assert post(url, message, modern_headers(message) | headers).status == status
    end(child)


def test_addresses_that_are_refused(run, serve):
    refused = run(bridge("--http", "0.0.0.0:0", "--", *EVERYTHING))
    assert refused.returncode == 2
    assert b"refused to serve on 0.0.0.0:0: everyone who can reach this address" in refused.stderr
    assert b"or pass --public if the network is trusted" in refused.stderr
    child, url = serve("--", *EVERYTHING)
    taken = run(bridge("--http", port_of(url), "--", *EVERYTHING))
    assert taken.returncode == 2
    assert taken.stderr.startswith(f"Error: cannot listen on 127.0.0.1:{port_of(url)}: ".encode())
    assert (refused.stdout, taken.stdout) == (b"", b"")
    end(child)


# A server at a URL


def test_a_remote_server_over_stdio(run, listening):
    served, url = listening(twopipes("run", EXAMPLES / "everything.py", "--http", "0"))
    words = ["--", *bridge(url)]
    for era in ("modern", "legacy"):
        assert said(run, "call", "add", "a=1", "b=2", "--era", era, *words) == "3\n"
        assert "Ada is 36" in said(run, "call", "ask", "--era", era, "--answer", "name=Ada", "--answer", "age=36", *words)
    assert "No problem found." in said(run, "doctor", "--quick", *words)
    end(served)


def test_a_token_and_headers(run, listening, write):
    served, url = listening(write(GUARDED))
    for words, env in (
        (["--token-env", "MINE"], {"MINE": "s3cret"}),
        (["--header", "Authorization: Bearer s3cret"], {}),
        ([], {"TWOPIPES_BEARER": "s3cret"}),
    ):
        # As a host would pass it on.
        variables = [word for name, value in env.items() for word in ("--env", f"{name}={value}")]
        assert said(run, "call", "whoami", *variables, "--", *bridge(*words, url)) == "ada\n"
    end(served)


def test_a_missing_token_is_reported_with_the_option_that_takes_it(launch, listening, write):
    served, url = listening(write(GUARDED))
    child = launch(bridge(url))
    message = child.ask(modern_call(1, "whoami"))["error"]["message"]
    assert "asks for authorization: HTTP 401" in message
    assert "--token-env NAME" in message
    child.finish()
    end(served)


def test_a_url_without_a_server_is_reported_to_the_host_until_there_is_one(launch, listening, write):
    served, url = listening(twopipes("run", EXAMPLES / "everything.py", "--http", "0"))
    end(served)
    child = launch(bridge(url))
    assert "nothing listens there" in child.ask(modern_call(1, "echo", text="a"))["error"]["message"]
    again, _ = listening(twopipes("run", EXAMPLES / "everything.py", "--http", str(port_of(url))))
    assert child.ask(modern_call(2, "echo", text="b"))["result"]["content"][0]["text"] == "b"
    child.finish()
    end(again)


def test_http_to_http(run, listening, serve):
    served, url = listening(twopipes("run", EXAMPLES / "everything.py", "--http", "0"))
    child, own = serve(url)
    for era in ("modern", "legacy"):
        assert "Ada is 36" in said(run, "call", "ask", own, "--era", era, "--answer", "name=Ada", "--answer", "age=36")
    for each in (child, served):
        end(each)
