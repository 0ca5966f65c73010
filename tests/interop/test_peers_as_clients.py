"""Real clients launch our server, use all its features, and end it."""

import json
import sys

import pytest

from interop.harness import BY_ITSELF, SCRIPTS, TEXT, Visit, node_script, python_of, visit_of
from twopipes._protocol.revisions import LATEST_LEGACY, LATEST_MODERN

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(sys.platform == "win32", reason="the witness reports through a FIFO"),
]


def assert_all_was_served(visit: Visit, *, revision: str) -> None:
    found = dict(visit.findings)
    del found["peer"]
    refusal = found.pop("refusal")
    assert found == {
        "revision": revision,
        "server": "echo 1.0",
        "tools": ["echo"],
        "answer": TEXT,
        "progress": [[0.5, 1, "echoing"]],
    }
    assert refusal["code"] == -32602
    assert "Unknown tool: no-such-tool" in refusal["message"]


@pytest.mark.parametrize(
    ("mode", "revision"),
    [("auto", LATEST_MODERN), ("legacy", LATEST_LEGACY), (LATEST_MODERN, LATEST_MODERN)],
    ids=["auto", "legacy", "pinned"],
)
def test_the_official_python_client_2_is_served(mode, revision, tmp_path):
    visit = visit_of([python_of("official-2"), str(SCRIPTS / "official_2_client.py")], mode=mode, folder=tmp_path)
    if mode == LATEST_MODERN:
        # With a pinned revision it does not discover, and only discovery gives it the server's name.
        assert visit.findings["server"] is None
        visit.findings["server"] = "echo 1.0"
    assert_all_was_served(visit, revision=revision)
    assert visit.launches == [BY_ITSELF]


def test_the_official_python_client_1_is_served(tmp_path):
    visit = visit_of([python_of("official-1"), str(SCRIPTS / "official_1_client.py")], mode=None, folder=tmp_path)
    assert_all_was_served(visit, revision=LATEST_LEGACY)
    assert visit.launches == [BY_ITSELF]


@pytest.mark.parametrize(("mode", "revision"), [("auto", LATEST_MODERN), ("legacy", LATEST_LEGACY)], ids=["auto", "legacy"])
def test_the_fastmcp_client_is_served(mode, revision, tmp_path):
    visit = visit_of([python_of("fastmcp-4"), str(SCRIPTS / "fastmcp_client.py")], mode=mode, folder=tmp_path)
    assert_all_was_served(visit, revision=revision)
    assert visit.launches == [BY_ITSELF]


def typescript_visit(mode, folder) -> Visit:
    visit = visit_of(node_script("typescript_client.mjs"), mode=mode, folder=folder)
    complaints = visit.findings.pop("complaints")
    if not visit.findings["progress"]:
        # It handles a notification later than a response that came with it in one read, and then complains.
        assert len(complaints) == 1
        problem, _, notification = complaints.pop().partition("unknown token: ")
        assert problem.startswith("Received a progress notification")
        progress = json.loads(notification)["params"]
        visit.findings["progress"] = [[progress["progress"], progress["total"], progress["message"]]]
    assert complaints == []
    return visit


def test_the_typescript_client_is_served_with_its_defaults(tmp_path):
    visit = typescript_visit(None, tmp_path)
    assert_all_was_served(visit, revision=LATEST_LEGACY)
    assert visit.launches == [BY_ITSELF]


@pytest.mark.parametrize("mode", ["auto", {"pin": LATEST_MODERN}], ids=["auto", "pinned"])
def test_the_typescript_client_is_served_after_it_has_negotiated(mode, tmp_path):
    visit = typescript_visit(mode, tmp_path)
    assert_all_was_served(visit, revision=LATEST_MODERN)
    assert visit.launches[-1] == BY_ITSELF
    # First it probes a process that it then kills. How that one ended does not matter here, but it has exited.
    assert len(visit.launches) <= 2
