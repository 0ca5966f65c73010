"""The ASGI application on other ASGI servers, and mounted in web frameworks."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest

from twopipes import connect

pytestmark = pytest.mark.interop

# Seconds: a net, not an assertion.
NET = 60

APPLICATIONS = """
from twopipes import Context, Server

server = Server("hosted")
entered = []


@server.tool
async def greet(name: str, ctx: Context) -> str:
    await ctx.progress(1, 2)
    return f"Hello, {name}!"


@server.tool
async def city(ctx: Context) -> str:
    answer = await ctx.elicit("Which city?", {"type": "object", "properties": {"name": {"type": "string"}}})
    return answer.content["name"]


@server.tool
async def grow() -> str:
    def another() -> str:
        return "new"

    server.add_tool(another)
    return "grown"


app = server.asgi()


def starlette():
    from starlette.applications import Starlette
    from starlette.routing import Mount

    return Starlette(routes=[Mount("/below", app=app)])


def fastapi():
    from fastapi import FastAPI

    site = FastAPI()
    site.mount("/below", app)
    return site


def django():
    from django.conf import settings
    from django.core.asgi import get_asgi_application

    settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="x")
    globals()["urlpatterns"] = []
    site = get_asgi_application()

    async def application(scope, receive, send):
        is_ours = scope["type"] == "lifespan" or scope["path"].startswith("/mcp")
        await (app if is_ours else site)(scope, receive, send)

    return application
"""

HOSTS = {
    "uvicorn": ["-m", "uvicorn", "--log-level", "warning", "--port", "{port}", "{app}"],
    "granian": ["-m", "granian", "--interface", "asgi", "--port", "{port}", "{app}"],
    "hypercorn": ["-m", "hypercorn", "--bind", "127.0.0.1:{port}", "{app}"],
}


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@pytest.fixture
def host(tmp_path, port):
    """Return a function that starts an ASGI server with an application, and ends it after the test."""
    (tmp_path / "site_of_test.py").write_text(APPLICATIONS)
    children = []

    def start(name, app="site_of_test:app", *more):
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed; run make interop")
        argv = [sys.executable, *(part.format(port=port, app=app) for part in HOSTS[name]), *more]
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "TWOPIPES_STATE_KEY": "k" * 32}
        child = subprocess.Popen(argv, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        children.append(child)
        end = time.monotonic() + NET
        while time.monotonic() < end and child.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return child
        raise AssertionError(child.stdout.read().decode())

    yield start
    for child in children:
        child.kill()
        child.communicate()


async def talk(url, era):
    """Use what differs between ASGI servers: JSON, streams, questions, subscriptions."""

    async def answer(_):
        return {"name": "Rome"}

    reported = []
    async with asyncio.timeout(NET), connect(url, era=era, on_elicit=answer) as client:
        result = await client.call_tool("greet", {"name": "Ada"}, on_progress=lambda progress: reported.append(progress.progress))
        assert result.text == "Hello, Ada!"
        assert reported == [1]
        assert (await client.call_tool("city")).text == "Rome"
        async with client.subscribe(tools=True) as changes:
            assert (await client.call_tool("grow")).text == "grown"
            async for change in changes:
                assert change.kind == "tools"
                break
        assert "another" in [tool.name for tool in await client.list_tools()]


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("name", HOSTS)
def test_an_asgi_server_serves_it_in_both_eras(host, port, name, era):
    child = host(name)
    asyncio.run(talk(f"http://127.0.0.1:{port}/mcp", era))
    child.send_signal(signal.SIGTERM)
    child.wait(NET)


@pytest.mark.parametrize("framework", ["starlette", "fastapi"])
def test_a_framework_mounts_it(host, port, framework):
    if find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed; run make interop")
    host("uvicorn", f"site_of_test:{framework}", "--factory")
    asyncio.run(talk(f"http://127.0.0.1:{port}/below/mcp", "modern"))


def test_django_runs_beside_it(host, port):
    if find_spec("django") is None:
        pytest.skip("django is not installed; run make interop")
    host("uvicorn", "site_of_test:django", "--factory")
    asyncio.run(talk(f"http://127.0.0.1:{port}/mcp", "modern"))
