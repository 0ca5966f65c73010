"""How a client handles servers that misbehave, and ends all their processes."""

import asyncio
import os
import shlex
import sys

import pytest

from processes import misbehaving as they
from processes.children import KILLED
from processes.client_stage import FIRM, FIRM_STEPS, IMPATIENT, SOON, staged, steps_of
from processes.launching import NET
from twopipes._client.era_cache import EraRecord
from twopipes._process.command import ServerCommand
from twopipes._session.client import ClientSession
from twopipes.errors import OpeningFailed, RemoteProtocolError, RequestTimedOut, ServerExited, StartFailed
from twopipes.settings import Limits, Timeouts
from twopipes.types import ClientOptions

HASTY = Timeouts(request=SOON, total=NET)


# The end


@staged
async def test_a_polite_server_exits_on_eof(stage):
    async with stage.connect(they.POLITE) as client:
        assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"
    assert client.closed.ended_by == "eof"
    assert client.closed.exit.code == 0
    assert steps_of(client.closed) == ["close stdin"]


@staged
async def test_a_stubborn_server_is_killed_after_every_step_of_the_plan(stage):
    """SD-01."""
    async with stage.connect(they.STUBBORN, shutdown=IMPATIENT) as client:
        assert (await client.call_tool("life")).text == "life 1"
    assert steps_of(client.closed) == ["close stdin", "wait", "SIGTERM", "wait", "SIGKILL"]
    assert client.closed.exit == KILLED


@staged
async def test_a_server_that_ignores_eof_gets_a_signal(stage):
    async with stage.connect(they.IGNORES_EOF, shutdown=FIRM) as client:
        await client.list_tools()
    assert steps_of(client.closed) == FIRM_STEPS
    assert client.closed.ended_by == FIRM_STEPS[-1]


@staged
async def test_a_grandchild_is_ended_too(stage):
    async with stage.connect(they.FORKS_A_GRANDCHILD, shutdown=IMPATIENT) as client:
        await client.list_tools()
        await stage.until(lambda: len(stage.pids) == 2)
        assert len(stage.left()) == 2
    assert steps_of(client.closed) == ["close stdin", "wait", "SIGTERM", "wait", "SIGKILL"]
    assert stage.left() == []


@staged
async def test_a_server_behind_a_shell_is_ended_too(stage):
    wrapped = stage.command(they.STUBBORN, wrapper=lambda argv: ["/bin/sh", "-c", f"{shlex.join(argv)}; true"])
    async with stage.connect(wrapped, shutdown=IMPATIENT) as client:
        assert (await client.call_tool("life")).text == "life 1"
        assert client.pid not in stage.pids  # which is the shell
        assert len(stage.left()) == 2
    assert "SIGKILL" in steps_of(client.closed)
    assert stage.left() == []


@staged
async def test_a_server_that_never_reads_costs_one_timeout_and_two_steps(stage):
    async with stage.connect(they.NEVER_READS, shutdown=FIRM) as client:
        with pytest.raises(RequestTimedOut) as caught:
            await client.call_tool("echo", {"text": "x" * 4_000_000}, timeouts=HASTY)
        assert caught.value.limit == "idle"
        with pytest.raises(RequestTimedOut):
            await client.list_tools(timeouts=HASTY)
    assert steps_of(client.closed) == FIRM_STEPS


# The opening


@staged
async def test_the_error_for_an_early_exit_has_the_exit_code_and_the_last_stderr_lines(stage):
    with pytest.raises(ServerExited) as caught:
        await stage.connect(they.EXITS_AT_ONCE)
    error = caught.value
    assert (error.phase, error.exit_code, error.signal) == ("starting", 3, None)
    assert error.stderr == ("nothing works here",)
    for reported in ("exit code 3", "starting", "nothing works here", "server.py"):
        assert reported in str(error)


@staged
async def test_a_missing_variable_shows_in_the_error_and_is_given_by_env(stage):
    with pytest.raises(ServerExited, match="set API_KEY first"):
        await stage.connect(they.NEEDS_A_VARIABLE)
    async with stage.connect(they.NEEDS_A_VARIABLE, env={"API_KEY": "secret"}) as client:
        await client.list_tools()
        assert "secret" not in repr(client)


@staged
async def test_a_silent_server_uses_up_the_connect_timeout_and_is_named(stage):
    with pytest.raises(OpeningFailed, match=r"connect limit of 0\.2 s"):
        await stage.connect(they.SILENT, timeouts=Timeouts(probe=SOON, connect=0.2, shutdown=NET))
    assert len(stage.lives) <= 1
    assert stage.left() == []


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not report what a child has read")
@pytest.mark.parametrize("known", [None, "modern", "legacy"])
@staged
async def test_a_server_that_fails_before_it_reads_is_launched_once_and_its_traceback_is_shown_once(stage, known):
    """DE-06: the probe was not the cause of its exit, nor was the handshake, whatever the cache says."""
    command = stage.command(they.FAILS_AT_START)
    if known is not None:
        stage.memory.remember(command.identity(), EraRecord(known, "", "answered"))
    lines = []
    with pytest.raises(ServerExited, match="no database"):
        await stage.connect(command, on_stderr=lambda line: lines.append(line.text))
    assert len(stage.lives) == 1
    assert lines.count("RuntimeError: no database") == 1


@staged
async def test_a_server_that_exits_on_any_message_is_launched_again_for_the_handshake(stage):
    """DE-06: only another attempt shows whether the probe was the cause."""
    with pytest.raises(ServerExited, match="no database"):
        await stage.connect(they.DIES_OF_ANYTHING)
    assert [life[0]["method"] for life in stage.lives] == ["server/discover", "initialize"]


@staged
async def test_a_server_that_exits_on_the_probe_gets_a_second_process_and_the_third_is_not_probed(stage):
    """DE-06, DE-07."""
    for _ in range(2):
        async with stage.connect(they.DIES_ON_PROBE) as client:
            assert (client.era, client.revision) == ("legacy", "2025-11-25")
            await client.ping()
    firsts = [life[0]["method"] for life in stage.lives]
    assert firsts == ["server/discover", "initialize", "initialize"]
    assert stage.methods(2) == ["initialize", "notifications/initialized", "ping"]


@staged
async def test_a_late_response_to_the_probe_is_dropped(stage):
    """DE-17."""
    opening = asyncio.ensure_future(_opened(stage.connect(they.SLOW_START, timeouts=Timeouts(probe=SOON, connect=NET))))
    await stage.until(lambda: stage.lives)
    await asyncio.sleep(2 * SOON)  # the probe times out in any case
    stage.open_the_gate()
    client = await opening
    assert client.era == "legacy"
    assert (await client.call_tool("life")).text == "life 1"
    assert stage.methods() == ["server/discover", "initialize", "notifications/initialized", "tools/call"]
    await client.close()


@staged
async def test_a_slow_modern_server_is_not_taken_for_a_legacy_one(stage):
    """DE-07: the cached era is used, and only the connect timeout applies."""
    async with stage.connect(they.POLITE):
        pass
    slow = they.POLITE.replace("serve()", "wait_at_the_gate()\n    serve()")
    opening = asyncio.ensure_future(_opened(stage.connect(slow, timeouts=Timeouts(probe=SOON, connect=NET))))
    await stage.until(lambda: len(stage.lives) == 2)
    await asyncio.sleep(2 * SOON)
    stage.open_the_gate()
    client = await opening
    assert client.era == "modern"
    await client.close()
    assert stage.methods(2) == ["server/discover"]


@staged
async def test_a_line_on_stderr_is_a_sign_of_life_that_the_probe_waits_for(stage, monkeypatch):
    deadlines = []
    note_activity = ClientSession.note_activity

    def spy(session, *, now):
        before = session.next_deadline()
        note_activity(session, now=now)
        deadlines.append((before, session.next_deadline()))

    monkeypatch.setattr(ClientSession, "note_activity", spy)
    loading = they.POLITE.replace("serve()", "complain('loading...')\n    wait_at_the_gate()\n    complain('loaded')\n    serve()")
    opening = asyncio.ensure_future(_opened(stage.connect(loading)))
    await stage.until(lambda: deadlines)
    stage.open_the_gate()
    client = await opening
    assert client.era == "modern"
    assert all(before < after for before, after in deadlines)
    await client.close()


@staged
async def test_an_unknown_version_is_named_together_with_the_supported_ones(stage):
    with pytest.raises(OpeningFailed) as caught:
        await stage.connect(they.UNKNOWN_VERSION)
    assert caught.value.offered == ("1999-12-31",)
    assert "2026-07-28" in caught.value.supported
    assert "1999-12-31" in str(caught.value)
    assert "2025-11-25" in str(caught.value)


@staged
async def test_the_error_for_a_missing_command_lists_the_searched_folders(stage):
    other = stage.folder / "bin"
    with pytest.raises(StartFailed) as caught:
        await stage.connect(ServerCommand(["no-such-server"], env={"PATH": f"{stage.folder}{os.pathsep}{other}"}))
    assert caught.value.reason == "not found"
    assert f"\n  {stage.folder}\n  {other}" in str(caught.value)


@staged
async def test_a_file_that_may_not_be_executed_is_named(stage):
    path = stage.write(they.POLITE)
    with pytest.raises(StartFailed, match="not executable") as caught:
        await stage.connect(ServerCommand([str(path)]))
    assert str(path) in str(caught.value)


@staged
async def test_a_missing_folder_is_named(stage):
    with pytest.raises(StartFailed, match="nowhere") as caught:
        await stage.connect(they.POLITE, cwd=stage.folder / "nowhere")
    assert caught.value.reason == "no such folder"


# Output


@staged
async def test_a_banner_is_reported_and_harms_nothing(stage):
    reported = []
    async with stage.connect(they.PRINTS_A_BANNER, on_stray_output=reported.append) as client:
        assert client.era == "modern"
        assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"
        assert [stray.excerpt for stray in reported] == ["Welcome to the finest server of all!"]
        assert list(client.stray) == reported
        assert client.stray_count == 1


@staged
async def test_noise_between_messages_is_counted_and_harms_nothing(stage):
    async with stage.connect(they.NOISY) as client:
        for _ in range(3):
            assert (await client.call_tool("noisy")).text == "life 1"
        assert (await client.call_tool("life")).text == "life 1"
        excerpts = [stray.excerpt for stray in client.stray]
        assert excerpts.count("working...") == excerpts.count("done!") == 3
        assert excerpts.count("42") == 3


@staged
async def test_endless_noise_is_kept_bounded(stage):
    program = they.NOISY.replace('done!\\n"', 'done!\\n" * 20_000')
    assert program != they.NOISY
    async with stage.connect(program) as client:
        await client.call_tool("noisy")
        await client.list_tools()
        assert client.stray_count > 20_000
        assert len(client.stray) <= 50


@staged
async def test_an_endless_message_does_not_starve_other_callers(stage):
    received = 0

    def count(method, params):
        nonlocal received
        received += 1

    async with stage.connect(they.FLOODS_STDOUT, options=ClientOptions(on_notification=count, era_cache=stage.memory)) as client:
        for number in range(10):
            assert (await client.call_tool("echo", {"text": str(number)})).text == str(number)
        assert received > 0
    assert client.closed.ended_by == "eof"


@staged
async def test_half_a_line_waits_for_its_other_half(stage):
    async with stage.connect(they.WRITES_HALF_A_LINE) as client:
        first = asyncio.ensure_future(client.call_tool("half"))
        await stage.until(lambda: "tools/call" in stage.methods())
        assert (await client.call_tool("life")).text == "after it"
        assert (await first).text == "whole"


@staged
async def test_a_late_response_is_dropped(stage):
    """CA-06, TO-02."""
    async with stage.connect(they.ANSWERS_LATE) as client:
        with pytest.raises(RequestTimedOut) as caught:
            await client.call_tool("late", timeouts=HASTY)
        assert (await client.call_tool("life")).text == "in time"
        cancelled = [message for message in stage.received if message["method"] == "notifications/cancelled"]
        assert [message["params"]["requestId"] for message in cancelled] == [caught.value.request_id]


@staged
async def test_the_first_of_two_responses_counts(stage):
    async with stage.connect(they.ANSWERS_TWICE) as client:
        assert (await client.call_tool("twice")).text == "first"
        assert (await client.call_tool("twice")).text == "first"
        assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"


@staged
async def test_responses_with_unknown_ids_are_dropped(stage):
    """FR-14: neither for the same number as a string nor for a later request."""
    async with stage.connect(they.ANSWERS_STRANGERS) as client:
        assert (await client.call_tool("strangers")).text == "for you"
        assert (await client.call_tool("life")).text == "life 1"


@staged
async def test_responses_reach_their_callers_in_any_order(stage):
    """FR-14."""
    async with stage.connect(they.BACKWARDS) as client:
        first = asyncio.ensure_future(client.call_tool("first"))
        await stage.until(lambda: "tools/call" in stage.methods())
        assert (await client.call_tool("life")).text == "second"
        assert (await first).text == "first"


@staged
async def test_a_request_on_the_stateless_wire_is_reported_and_gets_no_response(stage):
    """FR-10."""
    async with stage.connect(they.ASKS_ON_THE_MODERN_WIRE, on_sample=lambda question: "never asked") as client:
        assert (await client.call_tool("ask")).text == "life 1"
        assert (await client.call_tool("life")).text == "life 1"
        assert [stray.what.split()[1:5] for stray in client.stray] == [["request", "of", "the", "server"]] * 2
        assert "(sampling/createMessage)" in client.stray[1].what
    assert all("method" in message for message in stage.received)


@staged
async def test_endless_progress_ends_at_the_hard_limit(stage):
    """TO-03."""
    steps = []
    async with stage.connect(they.PROGRESS_FOR_EVER) as client:
        with pytest.raises(RequestTimedOut) as caught:
            await client.call_tool("forever", on_progress=steps.append, timeouts=Timeouts(request=NET, total=10 * SOON))
        assert caught.value.limit == "total"
        assert [step.progress for step in steps] == list(range(1, len(steps) + 1))
        assert (await client.call_tool("life")).text == "life 1"


@staged
async def test_a_line_beyond_the_limit_is_dropped_and_the_next_one_is_read(stage):
    async with stage.connect(they.HUGE_LINE, limits=Limits(max_line=100_000)) as client:
        with pytest.raises(RemoteProtocolError, match="too long"):
            await client.call_tool("huge", {"size": 1_000_000})
        assert (await client.call_tool("huge", {"size": 10})).text == "x" * 10
        assert client.stray_count == 1


# Unexpected exits


@staged
async def test_a_crash_in_a_call_is_reported_with_all_details(stage):
    async with stage.connect(they.CRASHES_MID_CALL) as client:
        pid = client.pid
        with pytest.raises(ServerExited) as caught:
            await client.call_tool("pay")
        error = caught.value
        assert (error.phase, error.exit_code, error.signal, error.method) == ("serving", 7, None, "tools/call")
        assert error.stderr == ("the disk is on fire",)
        assert error.request_id is not None
        assert error.retryable is False
        assert error.argv[-1].endswith("server.py")
        for reported in ("exit code 7", "tools/call", "the disk is on fire"):
            assert reported in str(error)
        assert pid not in stage.left()
        with pytest.raises(ServerExited):
            await client.list_tools()
    assert len(stage.lives) == 1


@staged
async def test_all_waiting_callers_get_an_error_after_a_crash(stage):
    async with stage.connect(they.CRASHES_MID_CALL) as client:
        outcomes = await asyncio.gather(*(client.call_tool("pay") for _ in range(50)), return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {ServerExited}
        assert len({outcome.request_id for outcome in outcomes}) == 50


@staged
async def test_a_signal_is_reported_by_its_name(stage):
    async with stage.connect(they.KILLED_BY_SIGNAL) as client:
        with pytest.raises(ServerExited, match="SIGSEGV") as caught:
            await client.call_tool("look")
        assert (caught.value.signal, caught.value.exit_code) == ("SIGSEGV", None)


@staged
async def test_a_response_before_a_crash_is_not_lost(stage):
    async with stage.connect(they.ANSWERS_THEN_DIES) as client:
        assert (await client.call_tool("last")).text.startswith("my last words")


@staged
async def test_an_exit_in_the_middle_of_a_line_is_reported_as_an_exit(stage):
    async with stage.connect(they.DIES_IN_A_LINE) as client:
        with pytest.raises(ServerExited) as caught:
            await client.call_tool("half")
        assert caught.value.exit_code == 4


@staged
async def test_a_server_that_closes_its_output_is_ended(stage):
    """SD-03."""
    async with stage.connect(they.CLOSES_STDOUT) as client:
        with pytest.raises(ServerExited, match="closed its output") as caught:
            await client.call_tool("look")
        assert caught.value.exit is None
        await stage.until(lambda: not stage.left())  # without another call


@staged
async def test_an_exit_is_noticed_although_another_process_holds_the_output(stage):
    async with stage.connect(they.HOLDS_STDOUT, shutdown=FIRM) as client:
        with pytest.raises(ServerExited) as caught:
            await client.call_tool("look")
        assert caught.value.exit_code == 7
        await stage.until(lambda: not stage.left())


async def _opened(connecting):
    return await connecting
