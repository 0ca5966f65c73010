"""Clients of other implementations at our server over HTTP, with ``twopipes tap`` between them."""

import json
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from interop import test_everything as everything
from interop.harness import run_client, serving
from interop.test_http import SERVED
from twopipes._protocol.revisions import LATEST_LEGACY, LATEST_MODERN
from twopipes.trace import judge, read, read_conversation

pytestmark = pytest.mark.interop

# Seconds: a net, not an assertion.
NET = 60


@contextmanager
def tapped(url, file):
    """Run a tap in front of a URL, and yield its own."""
    command = [sys.executable, "-m", "twopipes", "tap", "-o", str(file), url]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tap:
        try:
            assert tap.stderr.readline().startswith("twopipes tap: recording to ")
            yield tap.stderr.readline().partition("connect to ")[2].partition(" ")[0]
        finally:
            tap.send_signal(signal.SIGTERM)
            tap.wait(NET)
        assert tap.returncode == 0


@pytest.mark.parametrize(
    ("client", "mode", "revision"),
    [
        pytest.param(everything.official_2, "auto", LATEST_MODERN, id="official-2"),
        pytest.param(everything.official_1, None, LATEST_LEGACY, id="official-1"),
        pytest.param(everything.fastmcp, "legacy", LATEST_LEGACY, id="fastmcp-legacy"),
        pytest.param(everything.typescript, "auto", LATEST_MODERN, id="typescript"),
        pytest.param(everything.typescript, None, LATEST_LEGACY, id="typescript-legacy"),
    ],
)
def test_a_client_does_not_notice_the_tap(client, mode, revision, tmp_path):
    file = tmp_path / "trace.jsonl"
    with serving(SERVED, tmp_path) as url, tapped(url, file) as other:
        done = run_client([*client(), json.dumps({"url": other, "mode": mode})], tmp_path)
    assert done.returncode == 0, (tmp_path / "stderr").read_text(errors="replace")
    tour = everything.Tour(revision, json.loads(done.stdout), [], [])
    for check in (
        everything.test_a_client_connects_in_its_preferred_era,
        everything.test_a_client_lists_all_pages,
        everything.test_a_client_calls_tools_and_sees_which_failed,
        everything.test_a_client_reads_texts_bytes_and_templates,
        everything.test_a_client_answers_the_questions_of_handlers,
        everything.test_a_client_is_notified_of_changes_while_it_watches,
        everything.test_a_client_cancels_a_call_and_the_server_continues,
    ):
        check(tour)
    trace = read(file)
    conversation = read_conversation(trace, trace.header)
    assert revision in {connection.revision for connection in conversation.connections}
    # Only a cancelled call and a subscription may have no response; none has two.
    open_calls = [call for call in conversation.calls if call.answer is None]
    assert all(call.is_listen or call.method == "tools/call" for call in open_calls)
    assert not any(call.further_answers for call in conversation.calls)
    assert [finding for finding in judge(conversation) if finding.by == "server"] == []
