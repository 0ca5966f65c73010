"""Extensions and what belongs to none: AP-01, AP-02, AP-03, CP-08, CT-05, EL-13."""

import asyncio
import importlib.util
import json
import re
import sys
from pathlib import Path

from twopipes import Server
from twopipes._channels.memory import memory_pair
from twopipes._schema.form_types import elicitation_schema

EXAMPLES = Path(__file__).parents[3] / "examples"
EVERYONE = {"extensions": {"com.example/unheard-of": {"x": 1}, "io.modelcontextprotocol/tasks": {}}}


def ask(server, *requests, capabilities=None):
    """Sends modern requests one by one and gives the answers."""

    async def talk():
        ours, theirs = memory_pair()
        answers = []
        async with ours:
            serving = asyncio.create_task(server._serve_channel(theirs))
            for number, (method, params) in enumerate(requests):
                meta = {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": capabilities or {},
                }
                request = {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": meta}}
                ours.write(json.dumps(request).encode() + b"\n")
                answers.append(json.loads(await ours.read()))
            await ours.close_write()
            await serving
        return answers

    return asyncio.run(talk())


def with_an_app():
    server = Server("apps", extensions={"io.modelcontextprotocol/ui": {}})

    @server.tool(meta={"ui": {"resourceUri": "ui://clock"}})
    async def clock() -> str:
        return "It is noon."

    @server.resource("ui://clock", mime_type="text/html;profile=mcp-app")
    def page() -> str:
        return "<p>noon</p>"

    return server


def test_extensions_that_only_one_side_knows_change_nothing():
    """AP-01, CP-08: and no task is made for a client that could take one, since this server makes none."""
    call = ("tools/call", {"name": "clock"})
    (plain,), (rich,) = ask(with_an_app(), call), ask(with_an_app(), call, capabilities=EVERYONE)
    assert plain == rich
    assert plain["result"]["resultType"] == "complete"


def test_an_app_is_a_tool_that_points_to_a_resource_and_says_something_all_the_same():
    """AP-02, AP-03."""
    discovered, listed, read, called, initialized = ask(
        with_an_app(),
        ("server/discover", {}),
        ("tools/list", {}),
        ("resources/read", {"uri": "ui://clock"}),
        ("tools/call", {"name": "clock"}),
        ("ui/initialize", {}),
    )
    assert discovered["result"]["capabilities"]["extensions"] == {"io.modelcontextprotocol/ui": {}}
    assert listed["result"]["tools"][0]["_meta"] == {"ui": {"resourceUri": "ui://clock"}}
    assert read["result"]["contents"] == [{"uri": "ui://clock", "text": "<p>noon</p>", "mimeType": "text/html;profile=mcp-app"}]
    assert called["result"]["content"] == [{"type": "text", "text": "It is noon."}]
    assert initialized["error"]["code"] == -32601


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_a_server_that_embeds_resources_has_resources():
    """CT-05: as the example does."""
    (discovered,) = ask(load("everything").server, ("server/discover", {}))
    assert "resources" in discovered["result"]["capabilities"]


def test_the_forms_of_the_examples_ask_for_no_secrets():
    """EL-13: these are for a URL."""
    everything, asking = load("everything"), load("ask")
    for form in (everything.Person, everything.Colours, asking.Destination, asking.Confirmation):
        for name in elicitation_schema(form)["properties"]:
            assert not re.search("password|secret|token|key|card", name)
