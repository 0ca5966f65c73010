"""Clients that break the rules about schemas, one each."""

import asyncio
import json
import re
import sys

from check.mutation import Wire, raw_mutant, wire_mutant
from twopipes import connect
from twopipes._tools.check.client_run import CommandDriver, InProcessDriver


def without_tools(word, *, all_of_them):
    """Takes the tools away whose schema has a certain word, or all because of one."""

    def change(line):
        message = json.loads(line)
        result = message.get("result", {})
        if "tools" not in result or word not in json.dumps(result):
            return None
        result["tools"] = [] if all_of_them else [tool for tool in result["tools"] if word not in json.dumps(tool)]
        return json.dumps(message).encode() + b"\n"

    return change


@wire_mutant("JS-01")
def knows_only_old_drafts(wire: Wire):
    wire.to_subject = without_tools("prefixItems", all_of_them=False)


@wire_mutant("JS-02")
def gives_up_at_an_unknown_dialect(wire: Wire):
    wire.to_subject = without_tools("no-dialect", all_of_them=True)


@raw_mutant("JS-04")
def fetches_what_a_schema_refers_to():
    async def fetch(server):
        async with connect(server) as client:
            for tool in await client.list_tools():
                for port in re.findall(r"http://127\.0\.0\.1:(\d+)/", json.dumps(tool.input_schema)):
                    _, writer = await asyncio.open_connection("127.0.0.1", int(port))
                    writer.close()

    return InProcessDriver(fetch)


def stuck_at(word, *, at_the_end=False):
    """A client that waits for ever when a schema has a certain word in it; perhaps after all else is done."""

    async def validate(server):
        async with connect(server) as client:
            tools = await client.list_tools()
            for tool in tools if at_the_end else ():
                await client.call_tool(tool.name)
            if any(word in json.dumps(tool.output_schema) for tool in tools):
                await asyncio.Event().wait()
            await client.list_tools() if at_the_end else await client.list_prompts()

    return InProcessDriver(validate)


@raw_mutant("JS-06")
def never_finishes_a_validation():
    return stuck_at("step0")


@raw_mutant("JS-06")
def hangs_at_a_deep_schema():
    return stuck_at("floor0")


@raw_mutant("JS-06")
def hangs_at_a_recursive_schema():
    return stuck_at("mirror")


@raw_mutant("JS-06")
def never_ends_by_itself():
    return stuck_at("step0", at_the_end=True)


@raw_mutant("JS-01")
def never_ends_because_of_2020():
    return stuck_at("prefixItems", at_the_end=True)


@raw_mutant("JS-02")
def never_ends_because_of_a_dialect():
    return stuck_at("no-dialect", at_the_end=True)


@wire_mutant("JS-07")
def leaves_out_what_it_does_not_understand(wire: Wire):
    wire.to_subject = without_tools("oneOf", all_of_them=False)


# It ends badly because of what it found in the list, and does all that it does otherwise.
COMPLAINING = r"""
import json, subprocess, sys
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}

def ask(number, method, **params):
    line = {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": meta}}
    server.stdin.write(json.dumps(line).encode() + b"\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())

ask(1, "server/discover")
tools = ask(2, "tools/list")["result"]["tools"]
for number, tool in enumerate(tools):
    ask(3 + number, "tools/call", name=tool["name"], arguments={})
server.stdin.close()
server.wait()
sys.exit(any("oneOf" in tool["inputSchema"] for tool in tools))
"""


@raw_mutant("JS-07")
def complains_about_a_choice():
    return CommandDriver([sys.executable, "-c", COMPLAINING, "{server}"])
