"""The programs of docs/howto/serve-over-http.md, in the ASGI servers and frameworks that it names."""

import http.client
import json
import re
import socket
from pathlib import Path

import pytest

from processes.launching import NET, modern, python
from processes.tapping import wait_until

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "serve-over-http.md"
PROGRAMS = dict(re.findall(r'^```python title="(\w+\.py)"\n(.*?)^```', PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE))
SETTINGS = "SECRET_KEY = 'x'\nROOT_URLCONF = 'django_settings'\nALLOWED_HOSTS = ['*']\nurlpatterns = []\n"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_open(port):
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def ask(port, path, method, params=None, headers=()):
    """Send one modern request and return the status and the message."""
    message = modern(1, method, **(params or {}))
    repeated = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, **dict(headers)}
    if "name" in (params or {}):
        repeated["Mcp-Name"] = params["name"]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=NET)
    accept = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    try:
        connection.request("POST", path, json.dumps(message), {**accept, **repeated})
        response = connection.getresponse()
        body = response.read()
        return response.status, json.loads(body) if body.startswith(b"{") else body
    finally:
        connection.close()


@pytest.fixture
def served(launch, write):
    """Serve a program of the page, and return the port."""

    def served(*command):
        for name, text in {**PROGRAMS, "django_settings.py": SETTINGS}.items():
            write(text, name)
        port = free_port()
        child = launch(python("-m", *(word.replace("PORT", str(port)) for word in command)))
        started.append(child)
        wait_until(lambda: is_open(port) or child.process.poll() is not None)
        return port

    started = []
    yield served
    for child in started:  # some have processes of their own, which they end
        child.process.terminate()
        child.process.wait(NET)


UVICORN = ("uvicorn", "--port", "PORT", "--log-level", "warning")


@pytest.mark.parametrize(
    "command",
    [
        (*UVICORN, "app:app"),
        ("granian", "--interface", "asgi", "--port", "PORT", "app:app"),
        ("hypercorn", "--bind", "127.0.0.1:PORT", "app:app"),
    ],
    ids=lambda command: command[0],
)
def test_an_asgi_server(served, command):
    pytest.importorskip(command[0])
    port = served(*command)
    status, message = ask(port, "/mcp", "tools/call", {"name": "greet", "arguments": {"name": "Ada"}})
    assert (status, message["result"]["content"][0]["text"]) == (200, "Hello, Ada!")


@pytest.mark.parametrize(("framework", "path"), [("starlette", "/tools/mcp"), ("fastapi", "/tools/mcp"), ("django", "/mcp")])
def test_a_framework(served, framework, path):
    pytest.importorskip(framework)
    port = served(*UVICORN, f"with_{framework}:app")
    status, message = ask(port, path, "tools/call", {"name": "greet", "arguments": {"name": "Ada"}})
    assert (status, message["result"]["content"][0]["text"]) == (200, "Hello, Ada!")
    assert ask(port, "/other", "tools/list")[0] in {404, 405}


def test_a_token(served):
    port = served(*UVICORN, "with_auth:app")
    call = ("/mcp", "tools/call", {"name": "whoami", "arguments": {}})
    assert ask(port, *call)[0] == 401
    assert ask(port, *call, headers={"Authorization": "Bearer wrong"})[0] == 401
    status, message = ask(port, *call, headers={"Authorization": "Bearer only-for-this-page"})
    assert (status, message["result"]["content"][0]["text"]) == (200, "ada")
    assert ask(port, *call, headers={"Host": "evil.example"})[0] == 403
    assert ask(port, *call, headers={"Origin": "https://evil.example"})[0] == 403
