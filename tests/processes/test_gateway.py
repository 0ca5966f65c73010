"""The gateway in front of real processes: crashes, restarts, safe retries, and what remains."""

import pytest

from gateways import gateway_to
from inmemory import connected
from processes import misbehaving as they
from processes.client_stage import IMPATIENT, PATIENT, staged
from twopipes.settings import RestartPolicy

ALWAYS = RestartPolicy(when="always", first_delay=0.0)
ERAS = ("2025-11-25", "2026-07-28")


def gateway(stage, program, **options):
    return gateway_to(stage.command(program), **{"timeouts": PATIENT, "restart": ALWAYS, "era_cache": stage.memory, **options})


def calls(stage):
    return [sum(message["method"] == "tools/call" for message in life) for life in stage.lives]


@pytest.mark.parametrize("front", ERAS)
@pytest.mark.parametrize("program", [they.CRASHES_ONCE, they.CRASHES_ONCE_IN_A_SESSION])
@staged
async def test_a_crash_is_reported_at_once_with_the_exit_status_and_stderr(stage, front, program):
    server = gateway(stage, program)
    async with server._running(), connected(server, front) as host:
        await host.result("tools/list")
        request_id = host.start_tool("pay")
        error = (await host.line_of(request_id))["error"]
        assert error["code"] == -32603
        assert "exit code 7" in error["message"]
        assert "the disk is on fire" in error["message"]
        assert f"tools/call (id {request_id})" in error["message"]
        assert await host.text("pay") == "life 2"
        (back,) = server.backs
        assert back.restarts == 1
        assert back.pid == stage.pids[-1]
    assert calls(stage) == [1, 1]


@pytest.mark.parametrize("front", ERAS)
@pytest.mark.parametrize("program", [they.CRASHES_ONCE, they.CRASHES_ONCE_IN_A_SESSION])
@staged
async def test_a_safe_call_is_sent_again_and_the_host_does_not_notice(stage, front, program):
    server = gateway(stage, program)
    async with server._running(), connected(server, front) as host:
        await host.result("tools/list")
        assert await host.text("look") == "life 2"
    assert calls(stage) == [1, 1]


@staged
async def test_a_call_of_a_tool_that_the_host_has_not_listed_is_not_sent_twice(stage):
    server = gateway(stage, they.CRASHES_ONCE)
    async with server._running(), connected(server) as host:
        assert "exit code 7" in (await host.error("tools/call", name="look"))["message"]
    assert sum(calls(stage)) == 1


@staged
async def test_a_signal_is_named(stage):
    server = gateway(stage, they.KILLED_BY_SIGNAL)
    async with server._running(), connected(server) as host:
        assert "SIGSEGV" in (await host.error("tools/call", name="look"))["message"]


@staged
async def test_a_server_that_does_not_come_back_is_an_error_and_not_a_hang(stage):
    server = gateway(stage, they.NEVER_COMES_BACK, restart=RestartPolicy(when="always", first_delay=0.0, max_restarts=2))
    async with server._running(), connected(server) as host:
        await host.result("tools/list")
        await host.error("tools/call", name="pay")
        error = await host.error("tools/call", name="pay")
        assert "no disk" in error["message"]
    assert sum(calls(stage)) == 1


@staged
async def test_the_server_ends_with_the_gateway_whatever_it_does(stage):
    server = gateway(stage, they.CLOSES_STDOUT, shutdown=IMPATIENT)
    async with server._running(), connected(server) as host:
        await host.result("tools/list")
    assert stage.left() == []


@staged
async def test_the_child_has_the_environment_of_the_gateway(stage):
    program = """
        from speak import *
        serve(look=lambda message: answer(message, os.environ.get("PYTEST_CURRENT_TEST", "nothing")))
    """
    command = list(stage.command(program).argv)
    server = gateway_to(command, timeouts=PATIENT, env={"OWN": "1"})
    async with server._running(), connected(server) as host:
        assert "test_the_child_has_the_environment" in await host.text("look")
