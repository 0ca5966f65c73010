"""The commands with a URL: a real server over HTTP, served by ``twopipes run``."""

import json
import shutil

import pytest

from processes.launching import EXAMPLES, python

HELLO = EXAMPLES / "everything.py"

WITH_TOKEN = """
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


def twopipes(*words):
    return python("-m", "twopipes", *map(str, words))


@pytest.fixture
def server(listening):
    """Serve the examples over HTTP, and return the URL."""
    child, url = listening(twopipes("run", HELLO, "--http", "0"))
    assert url.startswith("http://127.0.0.1:")
    assert url.endswith("/mcp")
    yield url
    child.stop()


def said(run, *words, code=0, **options):
    done = run(twopipes(*words), **options)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout.decode()


def test_the_client_commands(run, server):
    listed = said(run, "list", server)
    assert listed.startswith("everything 1.0")
    assert "(modern, 2026-07-28)" in listed
    assert "(legacy, 2025-11-25)" in said(run, "list", server, "--era", "legacy")
    assert "(legacy, 2025-03-26)" in said(run, "list", "--revision", "2025-03-26", "--", server)
    assert said(run, "call", "echo", "text=hi", server) == "hi\n"
    assert said(run, "read", "note://first", server) == said(run, "read", "note://first", "--", *python(HELLO))
    assert "user" in said(run, "prompt", "review", "code=x", server)


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_results_as_json_and_a_trace(run, server, era, tmp_path):
    found = json.loads(said(run, "call", "echo", "text=hi", server, "--format", "json", "--era", era, "--trace", "t.jsonl"))
    assert found["content"] == [{"type": "text", "text": "hi"}]
    assert "tools/call #" in said(run, "view", "t.jsonl")
    lists = json.loads(said(run, "list", "--format", "json", server, "--era", era))
    assert {"tools", "resources", "prompts"} <= lists.keys()


def test_a_question_is_answered(run, server):
    for era in ("modern", "legacy"):
        answered = said(run, "call", "ask", server, "--era", era, "--answer", "name=Ada", "--answer", "age=36")
        assert "Ada is 36" in answered


def test_what_tap_records_can_be_replayed(run, launch, server, tmp_path):
    tap = launch(twopipes("tap", "-o", "t.jsonl", server))
    url = tap.err.until("connect to ").partition("connect to ")[2].partition(" ")[0]
    for era in ("modern", "legacy"):
        assert said(run, "call", "add", "a=1", "b=2", url, "--era", era).strip() == "3"
    tap.stop()
    shown = said(run, "view", "t.jsonl")
    assert shown.count("tools/call #") == 4
    assert "✗" not in shown
    assert "connection 0: 2026-07-28" in shown
    assert "connection 1: 2025-11-25" in shown
    for connection in ("0", "1"):
        said(run, "replay", "t.jsonl", "--connection", connection, server)
        said(run, "replay", "t.jsonl", "--connection", connection, "--", *python(HELLO))


def test_check_and_doctor(run, server):
    assert "0 failed" in said(run, "check", "--only", "JR-01,HT-10,HT-12", server)
    assert "No problem found." in said(run, "doctor", "--quick", server)


def test_a_token(run, write, listening):
    child, url = listening(write(WITH_TOKEN))
    refused = run(twopipes("list", url))
    assert refused.returncode == 3
    assert b"asks for authorization: HTTP 401" in refused.stderr
    assert b"--bearer TOKEN" in refused.stderr
    assert "token-required" in said(run, "doctor", "--quick", url, code=1)
    for words, env in (
        (["--bearer", "s3cret"], {}),
        (["--header", "Authorization: Bearer s3cret"], {}),
        ([], {"TWOPIPES_BEARER": "s3cret"}),
    ):
        assert said(run, "call", "whoami", url, *words, env=env) == "ada\n"
        assert json.loads(said(run, "call", "whoami", url, *words, "--format", "json", env=env))["content"][0]["text"] == "ada"
    assert "0 failed" in said(run, "check", "--only", "JR-01", url, "--bearer", "s3cret")
    assert "No problem found." in said(run, "doctor", "--quick", url, "--bearer", "s3cret")
    for command in ("list", "doctor", "check"):
        done = run(twopipes(command, url, "--bearer", "wr0ng-token"))
        assert done.returncode != 0
        assert b"wr0ng-token" not in done.stdout + done.stderr
    child.stop()


def test_a_server_in_a_configuration_file(run, server, tmp_path):
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"notes": {"type": "http", "url": server}}}))
    assert said(run, "call", "echo", "text=hi", "--config", "mcp.json") == "hi\n"
    assert "notes (http://" in said(run, "doctor", "--quick", "--config", "mcp.json")


def test_a_url_without_a_server(run):
    done = run(twopipes("call", "echo", "text=hi", "http://127.0.0.1:1/mcp"))
    assert done.returncode == 3
    assert done.stderr.startswith(b"Error: ")
    assert b"Traceback" not in done.stderr


def test_several_workers(run, listening):
    child, address = listening(twopipes("run", HELLO, "--http", "0", "--workers", "2"))
    url, _, rest = address.partition(" ")
    assert rest == "with 2 workers"
    assert said(run, "call", "echo", "text=hi", url) == "hi\n"
    child.stop()


def test_a_file_that_runs_its_server_itself_gets_the_options(run, listening, tmp_path):
    shutil.copy(EXAMPLES / "hello.py", tmp_path / "hello.py")  # it ends with server.run()
    child, url = listening(twopipes("run", "hello.py", "--http", "127.0.0.1:0"))
    assert said(run, "call", "greet", "name=Ada", url) == "Hello, Ada!\n"
    child.stop()


def test_a_public_address_is_refused_unless_it_is_named(run, listening):
    done = run(twopipes("run", HELLO, "--http", "0.0.0.0:0"))
    assert done.returncode == 2
    assert b"refused to serve on 0.0.0.0:0" in done.stderr
    child, url = listening(twopipes("run", HELLO, "--http", "0.0.0.0:0", "--public"))
    port = url.partition("/mcp")[0].rpartition(":")[2]
    assert said(run, "call", "echo", "text=hi", f"http://127.0.0.1:{port}/mcp") == "hi\n"
    child.stop()
