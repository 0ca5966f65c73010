"""The official SDKs of model APIs take our tools and results. A server on loopback takes the place of the APIs."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import twopipes
from interop.harness import EVERYTHING, EXAMPLES, NET, SCRIPTS, connected, python_of
from interop.test_published_servers import on_npm
from twopipes._host.model_formats import anthropic_tool, openai_tool
from twopipes._host.model_results import anthropic_result, openai_result
from twopipes.errors import ServerExited

pytestmark = pytest.mark.interop

CALL = {"a": 1, "b": 2}
# Schemas that at least one of the APIs would refuse as they are.
ODD = {
    "no properties": {"type": "object"},
    "alternatives": {"type": "object", "oneOf": [{"properties": {"a": {"type": "array"}}}, {"required": ["b"]}]},
    "brackets": {"type": "object", "properties": {"filter[id]": {"type": "string"}}, "required": ["filter[id]"]},
    "draft 4": {"type": "object", "properties": {"a": {"minimum": 1, "exclusiveMinimum": True}}},
    "draft 7": {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"a": {"items": [{}]}}},
    "invalid": {"type": "object", "properties": {"a": {"type": "str"}}},
    "regex": {"type": "object", "properties": {"a": {"pattern": r"^\p{L}+$"}}},
}


def answers(name, arguments):
    """Return what a model would answer, by the path of the API: first a call, then a text."""
    used = {"usage": {"input_tokens": 1, "output_tokens": 1}, "type": "message", "role": "assistant", "model": "any"}
    call = {"name": name, "arguments": json.dumps(arguments)}
    tool_call = {"id": "call_1", "type": "function", "function": call}
    text = [{"type": "output_text", "text": "done", "annotations": []}]
    return {
        "/v1/messages": [
            {"id": "msg_1", "content": [{"type": "tool_use", "id": "toolu_1", "name": name, "input": arguments}], **used},
            {"id": "msg_2", "content": [{"type": "text", "text": "done"}], **used},
        ],
        "/responses": [
            {
                "id": "resp_1",
                "object": "response",
                "output": [{"type": "function_call", "id": "fc_1", "call_id": "call_1", **call}],
            },
            {
                "id": "resp_2",
                "object": "response",
                "output": [{"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": text}],
            },
        ],
        "/chat/completions": [
            {
                "id": f"chat_{number}",
                "object": "chat.completion",
                "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}],
            }
            for number, message in enumerate([{"content": None, "tool_calls": [tool_call]}, {"content": "done"}])
        ],
    }


@contextmanager
def model(name, arguments):
    """Serve the answers on loopback. Yields the URL and the bodies of the requests so far, by path."""
    given = answers(name, arguments)
    bodies = {path: [] for path in given}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            bodies[self.path].append(body)
            answer = json.dumps(given[self.path][len(bodies[self.path]) - 1]).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", bodies
        finally:
            server.shutdown()
            serving.join()


async def tools_and_results():
    """Return the schemas of our tools and those of a published server, and results of every kind."""
    async with connected(EVERYTHING) as ours, connected(on_npm("server-everything", "stdio")) as theirs:
        tools = [*await ours.client.list_tools(), *await theirs.client.list_tools()]
        calls = [
            (ours, "add", CALL), (ours, "blocks", {}), (ours, "fail", {}), (ours, "numbers", {"count": 3}),
            (theirs, "get-tiny-image", {}), (theirs, "get-resource-links", {"count": 2}),
            (theirs, "get-resource-reference", {}), (theirs, "get-structured-content", {"location": "Chicago"}),
        ]  # fmt: skip
        results = [await server.client.call_tool(name, arguments) for server, name, arguments in calls]
    return tools, [*results, ServerExited(["server"], phase="serving")]


def test_the_official_sdks_take_our_tools_and_results(tmp_path):
    python = python_of("model-apis")
    tools, results = asyncio.run(tools_and_results())
    schemas = {**{f"t{number}": tool.input_schema for number, tool in enumerate(tools)}, **ODD}
    definitions = [(name.replace(" ", "_"), "A tool.", schema) for name, schema in schemas.items()]
    job = {
        "anthropic": {
            "tools": [anthropic_tool(*each) for each in definitions],
            "results": [anthropic_result("toolu_1", each) for each in results],
        },
        "responses": {
            "tools": [openai_tool(*each) for each in definitions],
            "results": [openai_result("call_1", each) for each in results],
        },
        "chat": {
            "tools": [openai_tool(*each, "chat") for each in definitions],
            "results": [openai_result("call_1", each, "chat") for each in results],
        },
    }
    with model("sums__add", CALL) as (url, bodies):
        (tmp_path / "job.json").write_text(json.dumps({**job, "url": url}))
        command = [python, str(SCRIPTS / "model_apis.py"), str(tmp_path / "job.json")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=2 * NET, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)

    for api, name, path, messages in (
        ("anthropic", "toolu_1", "/v1/messages", "messages"),
        ("responses", "call_1", "/responses", "input"),
        ("chat", "call_1", "/chat/completions", "messages"),
    ):
        assert found[api] == {"rejected": [], "call": [name, "sums__add", CALL], "text": "done"}
        first, second = bodies[path]
        # The SDK sent them unchanged.
        assert first["tools"] == second["tools"] == job[api]["tools"]
        sent = second[messages]
        assert (sent[-1]["content"] if api == "anthropic" else sent[-len(results) :]) == job[api]["results"]


def test_the_sdks_reject_what_is_wrong(tmp_path):
    """The check above can fail."""
    python = python_of("model-apis")
    job = {
        "anthropic": {"tools": [{"name": "t", "parameters": {}}], "results": []},
        "responses": {"tools": [{"type": "function", "function": {"name": "t"}}], "results": [{"output": 3}]},
        "chat": {"tools": [{"type": "function", "name": "t"}], "results": [{"role": "tool", "content": "x"}]},
    }
    with model("sums__add", CALL) as (url, _):
        (tmp_path / "job.json").write_text(json.dumps({**job, "url": url}))
        command = [python, str(SCRIPTS / "model_apis.py"), str(tmp_path / "job.json")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=2 * NET, check=True)
    found = json.loads(done.stdout)
    assert [len(found[api]["rejected"]) for api in job] == [1, 2, 2]


def test_the_loops_of_the_page_work_with_the_official_sdks(tmp_path):
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"hello": {"command": sys.executable, "args": [str(EXAMPLES / "hello.py")]}}}))
    with model("hello__greet", {"name": "Ada"}) as (url, bodies):
        command = [python_of("model-apis"), str(SCRIPTS / "model_host.py"), url, str(file)]
        environment = {**os.environ, "PYTHONPATH": str(Path(twopipes.__file__).parents[1])}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=2 * NET, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"anthropic": "done", "openai": "done"}
    assert bodies["/v1/messages"][1]["messages"][-1]["content"] == [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "Hello, Ada!"}]}
    ]
    assert bodies["/responses"][1]["input"][-1] == {"type": "function_call_output", "call_id": "call_1", "output": "Hello, Ada!"}
