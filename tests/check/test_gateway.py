"""Our server behind a gateway: `bridge` and `keep` break no rule that the server alone keeps, and hide none from the check."""

import os
import sys

import pytest

from check.healthy import EXAMPLE, new_server
from check.http_reference import with_mirrored_arguments
from check.runs import of_server, run
from check.test_ours import WAITS, breaches
from gateways import gateway_to
from http_server import serve_asgi
from twopipes._process.command import ServerCommand
from twopipes._protocol.revisions import ALL, LEGACY, MODERN
from twopipes._tools.check.http.target import HttpTarget
from twopipes._tools.check.server_source import CommandTarget

pytestmark = pytest.mark.mutants

TWOPIPES = [sys.executable, "-m", "twopipes"]
# Rules for a server that speaks only the modern revision. A gateway in front of it speaks all of them.
ONLY_WITHOUT_SESSIONS = {"DE-09", "HT-47"}
SERVER = [sys.executable, str(EXAMPLE)]


def check_command(*words):
    state = {name: os.environ[name] for name in ("XDG_STATE_HOME",) if name in os.environ}
    return run(of_server(CommandTarget(ServerCommand(words, env=state), timeouts=WAITS), revisions=ALL))


def kept(outcome):
    """Return the rules that the check found to be kept."""
    return {verdict.rule.id for verdict in outcome.verdicts if verdict.outcome == "passed"}


@pytest.fixture(scope="module")
def alone():
    return check_command(*SERVER)


@pytest.mark.parametrize("command", ["bridge", "keep"])
def test_a_server_behind_a_command(command, alone):
    outcome = check_command(*TWOPIPES, command, "--", *SERVER)
    assert outcome.revisions == list(ALL)
    assert breaches(outcome) == []
    assert kept(alone) - kept(outcome) == set()


# A legacy server that several clients share cannot ask while the calls of two of them are open, so each session gets its own.
@pytest.mark.parametrize(("revisions", "isolated"), [(LEGACY, True), (MODERN, False)], ids=["legacy", "modern"])
def test_a_server_behind_a_gateway_over_http(revisions, isolated):
    alone = check_over_http(new_server_of(revisions))
    outcome = check_over_http(gateway_to(new_server_of(revisions), isolated=isolated))
    assert outcome.revisions == list(ALL)
    assert breaches(outcome) == []
    missing = kept(alone) - kept(outcome) - ONLY_WITHOUT_SESSIONS
    if missing:
        # Conversations of the check that run at once share the server behind, so one may spoil what another looks at.
        missing -= kept(check_over_http(gateway_to(new_server_of(revisions), isolated=isolated), wanted=missing))
    assert missing == set()


def new_server_of(revisions):
    server = with_mirrored_arguments(new_server())
    server._revisions = revisions
    return server


def check_over_http(server, wanted=None):
    with serve_asgi(server.asgi()) as port:
        target = HttpTarget(f"http://127.0.0.1:{port}/mcp", timeouts=WAITS)
        return run(of_server(target, revisions=ALL, wanted=wanted))
