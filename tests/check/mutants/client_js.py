"""Clients that break the rules about schemas, one each."""

import asyncio
import json
import re

from check.mutating import Wire, raw_mutant, wire_mutant
from twopipes import connect
from twopipes.check.client_running import InProcessDriver


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


@raw_mutant("JS-06")
def never_finishes_a_validation():
    async def validate(server):
        async with connect(server) as client:
            if any("step0" in json.dumps(tool.output_schema) for tool in await client.list_tools()):
                await asyncio.Event().wait()
            await client.list_prompts()

    return InProcessDriver(validate)


@wire_mutant("JS-07")
def leaves_out_what_it_does_not_understand(wire: Wire):
    wire.to_subject = without_tools("oneOf", all_of_them=False)
