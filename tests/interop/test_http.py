"""Other implementations over HTTP, both ways and in both eras: the same tours and the same checks as over stdio."""

import asyncio
import json
import sys
from functools import partial

import pytest

from interop import test_everything as everything
from interop import test_our_client as our_client
from interop.harness import EXAMPLES, connected_to, run_client, serving
from interop.test_our_client import NOTE_CHANGED, TOOLS_CHANGED, Peer
from twopipes._protocol.revisions import LATEST_LEGACY, LATEST_MODERN

pytestmark = pytest.mark.interop

SERVE = "import sys; sys.path.insert(0, sys.argv[1]); from everything import server; server.run(http=int(sys.argv[2]))"
SERVED = [sys.executable, "-c", SERVE, str(EXAMPLES)]


# Their clients at our server


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((everything.official_2, "auto", LATEST_MODERN), id="official-2-auto"),
        pytest.param((everything.official_2, "legacy", LATEST_LEGACY), id="official-2-legacy"),
        pytest.param((everything.official_1, None, LATEST_LEGACY), id="official-1"),
        pytest.param((everything.fastmcp, "auto", LATEST_MODERN), id="fastmcp-auto"),
        pytest.param((everything.fastmcp, "legacy", LATEST_LEGACY), id="fastmcp-legacy"),
        pytest.param((everything.typescript, None, LATEST_LEGACY), id="typescript-default"),
        pytest.param((everything.typescript, "auto", LATEST_MODERN), id="typescript-auto"),
        pytest.param((everything.typescript, {"pin": LATEST_MODERN}, LATEST_MODERN), id="typescript-pinned"),
    ],
)
def their_tour(request, tmp_path_factory):
    client, mode, revision = request.param
    folder = tmp_path_factory.mktemp("tour")
    with serving(SERVED, folder) as url:
        done = run_client([*client(), json.dumps({"url": url, "mode": mode})], folder)
    assert done.returncode == 0, (folder / "stderr").read_text(errors="replace")
    return everything.Tour(revision, json.loads(done.stdout), [], [])


@pytest.mark.parametrize(
    "check",
    [
        everything.test_a_client_connects_in_its_preferred_era,
        everything.test_a_client_lists_all_pages,
        everything.test_a_client_calls_tools_and_sees_which_failed,
        everything.test_a_client_gets_a_block_of_each_kind,
        everything.test_a_client_reads_texts_bytes_and_templates,
        everything.test_a_client_gets_prompts_and_completes_their_arguments,
        everything.test_a_client_answers_the_questions_of_handlers,
        everything.test_a_client_gets_log_messages_from_the_level_it_chose,
        everything.test_a_client_is_notified_of_changes_while_it_watches,
        everything.test_a_client_cancels_a_call_and_the_server_continues,
    ],
    ids=lambda check: check.__name__.removeprefix("test_a_client_"),
)
def test_a_client_of_another_implementation(check, their_tour):
    check(their_tour)


def test_a_client_of_another_implementation_follows_the_progress_of_a_call(their_tour):
    assert their_tour.found["slow"] == "3 steps"
    assert their_tour.found["progress"] == [[step, 3, f"step {step}"] for step in (1, 2, 3)]


# Our client at their servers


@pytest.fixture(
    scope="module",
    params=[
        Peer("official-2", our_client.official_2, "auto", "modern", {TOOLS_CHANGED, NOTE_CHANGED}),
        Peer("official-2", our_client.official_2, "legacy", "legacy", {NOTE_CHANGED}),
        # Over HTTP it declares neither `subscribe` nor changes of lists.
        Peer("official-1", our_client.official_1, "auto", "legacy", set()),
        Peer("fastmcp", our_client.fastmcp, "auto", "modern", None),
        Peer("fastmcp", our_client.fastmcp, "legacy", "legacy", {TOOLS_CHANGED}),
        Peer("typescript-2", our_client.typescript_2, "auto", "modern", {TOOLS_CHANGED, NOTE_CHANGED}),
        Peer("typescript-2", our_client.typescript_2, "legacy", "legacy", {TOOLS_CHANGED, NOTE_CHANGED}),
    ],
    ids=lambda peer: f"{peer.name}-{peer.era}",
)
def our_tour(request, tmp_path_factory):
    with serving(request.param.command(), tmp_path_factory.mktemp("served")) as url:
        found = asyncio.run(our_client.make_tour(request.param, partial(connected_to, url)))
    return our_client.Tour(request.param, found)


@pytest.mark.parametrize(
    "check",
    [
        our_client.test_the_client_uses_the_era_of_the_server,
        our_client.test_everything_is_listed,
        our_client.test_a_tool_is_called_and_reports_progress,
        our_client.test_structured_output_matches_the_schema_of_the_tool,
        our_client.test_resources_are_read,
        our_client.test_a_prompt_is_filled_in_and_its_argument_completed,
        our_client.test_unknown_names_are_refused,
        our_client.test_questions_of_the_server_are_answered,
        our_client.test_log_messages_arrive,
        our_client.test_changes_arrive_if_the_server_reports_them,
        our_client.test_a_cancelled_call_stops_in_the_server_too,
    ],
    ids=lambda check: check.__name__.removeprefix("test_"),
)
def test_a_server_of_another_implementation(check, our_tour):
    check(our_tour)
