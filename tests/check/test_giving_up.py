"""Clients that give something up in an orderly way have no findings."""

import asyncio
import sys
from contextlib import suppress

import pytest

from check.raw_connection import META, RawConnection
from check.raw_tasks_client import hand_to
from check.runs import HASTY, PATIENT, of_client, run
from check.time_scale import scaled
from twopipes import TwopipesError
from twopipes._tools.check.client_run import CommandDriver, InProcessDriver

MODERN, LEGACY = "2026-07-28", "2025-11-25"
MORE = {"leaves": (), "asks once": ("resources/list",), "asks for more": ("resources/list", "prompts/list")}
# A client that goes on after a call has failed, and says so by its exit code.
EXITS_WITH_1 = """
import asyncio, sys
from twopipes import TwopipesError, connect

async def main():
    failed = False
    async with connect(sys.argv[1:]) as client:
        for tool in await client.list_tools():
            try:
                await client.call_tool(tool.name)
            except TwopipesError:
                failed = True
    sys.exit(failed)

asyncio.run(main())
"""


def outcomes(driver, revision, rule, timeouts=HASTY):
    outcome = run(of_client(driver, revisions=[revision], wanted={rule}, timeouts=scaled(timeouts)))
    return {(verdict.outcome, verdict.why if verdict.outcome == "failed" else "") for verdict in outcome.of(rule)}


def talking_client(revision, tour):
    meta = {"_meta": META} if revision == MODERN else {}

    async def go(launcher):
        async with RawConnection(launcher) as connection:

            async def ask(method, **params):
                return await connection.request(method, {**params, **meta})

            await (ask("server/discover") if revision == MODERN else connection.initialize())
            await tour(connection, ask)

    return InProcessDriver(go)


@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("revision", [LEGACY, MODERN])
@pytest.mark.parametrize("rule", ["CA-06", "CA-07"])
def test_a_client_that_calls_no_more_tools_after_a_timeout_has_no_findings(rule, revision, more):
    async def tour(connection, ask):
        for number, tool in enumerate((await ask("tools/list"))["result"]["tools"]):
            try:
                async with asyncio.timeout(0.3):
                    await ask("tools/call", name=tool["name"], arguments={})
            except TimeoutError:
                connection.send("notifications/cancelled", {"requestId": number + 3})  # behind the opening and the list
                break
        for method in MORE[more]:
            await ask(method)

    found = outcomes(talking_client(revision, tour), revision, rule)
    assert found - {("skipped", "")} == ({("passed", "")} if more == "asks for more" else set())


@pytest.mark.parametrize("rule", ["ER-07"])
def test_a_client_that_reports_a_failed_call_by_its_exit_code_has_no_findings(rule):
    driver = CommandDriver([sys.executable, "-c", EXITS_WITH_1, "{server}"])
    assert outcomes(driver, MODERN, rule, PATIENT) == {("passed", "")}


def test_a_client_that_gives_up_a_contradictory_server_is_not_judged():
    async def go(launcher):
        async with RawConnection(launcher) as connection:
            if "result" in await connection.request("server/discover", {"_meta": META}):
                await connection.request("tools/list", {"_meta": META})

    assert outcomes(InProcessDriver(go), MODERN, "DE-03") == {("skipped", "")}


def test_a_client_that_requires_a_result_type_is_not_judged():
    async def tour(_talking, ask):
        if "resultType" in (await ask("tools/list"))["result"]:
            await ask("tools/call", name="greet", arguments={})

    assert outcomes(talking_client(MODERN, tour), MODERN, "VN-10") == {("skipped", "")}


def test_a_client_whose_requests_are_rejected_once_has_no_findings():
    async def tour(_talking, ask):
        for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list"):
            await ask(method)
        for name in ("greet", "work", "other", "another"):
            await ask("tools/call", name=name, arguments={})

    assert outcomes(talking_client(MODERN, tour), MODERN, "VN-05") == {("passed", "")}


def test_a_client_that_dropped_its_listen_when_the_server_died_is_not_judged():
    async def go(launcher):
        with suppress(ConnectionError, TwopipesError):
            async with hand_to(launcher) as hand:
                await hand.request("server/discover", {})
                hand.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
                await hand.request("prompts/list", {})
        async with hand_to(launcher) as hand:
            await hand.request("tools/list", {})

    assert outcomes(InProcessDriver(go), MODERN, "SU-16") == {("skipped", "")}
