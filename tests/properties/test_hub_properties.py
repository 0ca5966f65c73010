"""Whatever servers call themselves and their tools: each listed name is valid and unique, and reaches its own tool."""

import asyncio
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fake_server import FakeServer, legacy, text
from gateways import through_hub
from inmemory import LATEST_LEGACY, LATEST_MODERN

pytestmark = pytest.mark.slow  # each example opens several servers

VALID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
names = st.one_of(
    st.text("ab_-.", min_size=1, max_size=6),
    st.text(min_size=1, max_size=8).filter(lambda name: name.isprintable()),
    st.sampled_from(["a" * 80, "a" * 79 + "b", "search_tools", "\u0430", "A", "a__b", "b__c"]),
)
uris = st.sampled_from([f"{scheme}:{name}" for scheme in "xy" for name in "abc"])
servers = st.dictionaries(
    names, st.tuples(st.lists(names, max_size=4), st.lists(uris, max_size=3), st.booleans()), min_size=1, max_size=4
)


def serving(server, tools, resources, is_legacy):
    answers = {
        "tools/list": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in tools]},
        "tools/call": lambda asked: text(f"{server} {asked.params['name']}"),
        "resources/list": {"resources": [{"uri": uri, "name": uri} for uri in resources]},
        "resources/read": lambda asked: {"contents": [{"uri": asked.params["uri"], "text": server}]},
    }
    return legacy(answers) if is_legacy else FakeServer(answers)


@settings(max_examples=20, deadline=None)
@given(servers, st.sampled_from([LATEST_LEGACY, LATEST_MODERN]), st.integers(1, 5))
def test_every_listed_name_reaches_its_own_tool_and_every_uri_its_first_server(described, front, page_size):
    async def main():
        fakes = {name: serving(name, *what) for name, what in described.items()}
        async with asyncio.timeout(60), through_hub(fakes, front, page_size=page_size) as (host, _):
            listed = await all_of(host, "tools/list", "tools", "name")
            assert len(set(listed)) == len(listed)
            assert all(VALID.fullmatch(name) for name in listed)
            reached = {await host.text(name) for name in listed}
            assert reached == {f"{name} {tool}" for name, (tools, _, _) in described.items() for tool in tools}
            found = await all_of(host, "resources/list", "resources", "uri")
            owners = {}
            for name, (_, resources, _) in described.items():
                for uri in resources:
                    owners.setdefault(uri, name)
            assert sorted(found) == sorted(owners)
            for uri in found:
                (content,) = (await host.result("resources/read", uri=uri))["contents"]
                assert content["text"] == owners[uri]

    asyncio.run(main())


async def all_of(host, method, member, key):
    """Return the keys of all pages of a list."""
    found, cursor = [], {}
    while True:
        page = await host.result(method, **cursor)
        found += [item[key] for item in page[member]]
        if "nextCursor" not in page:
            return found
        cursor = {"cursor": page["nextCursor"]}
