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


@pytest.mark.parametrize("eras", ["both", "legacy", "modern"])
def test_a_server_behind_a_gateway_over_http(eras):
    server = with_mirrored_arguments(new_server())
    server._revisions = {"both": ALL, "legacy": LEGACY, "modern": MODERN}[eras]
    with serve_asgi(server.asgi()) as port:
        alone = run(of_server(HttpTarget(f"http://127.0.0.1:{port}/mcp", timeouts=WAITS), revisions=ALL))
    with serve_asgi(gateway_to(server).asgi()) as port:
        outcome = run(of_server(HttpTarget(f"http://127.0.0.1:{port}/mcp", timeouts=WAITS), revisions=ALL))
    assert breaches(outcome) == []
    assert kept(alone) - kept(outcome) == set()
