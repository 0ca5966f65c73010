"""The claims of the README's table about us and the other libraries, where the scoreboard does not show them."""

import json
import sys

import pytest

from interop.harness import INSTALLED, SCRIPTS, node_script, peer, python_of, run_client

pytestmark = pytest.mark.interop

DYING = """
import os, sys
from twopipes import Server

server = Server("dying")


@server.tool
def die() -> str:
    print("the disk is on fire", file=sys.stderr, flush=True)
    os._exit(3)


@server.tool
def live() -> str:
    return "alive"


server.run()
"""
CLIENTS = {
    "twopipes": lambda: [sys.executable, str(SCRIPTS / "twopipes_lost_server.py")],
    "official-2": lambda: [python_of("official-2"), str(SCRIPTS / "official_2_lost_server.py")],
    "fastmcp": lambda: [python_of("fastmcp-4"), str(SCRIPTS / "fastmcp_lost_server.py")],
    "typescript": lambda: node_script("typescript_lost_server.mjs"),
}


@pytest.mark.parametrize("name", CLIENTS)
def test_only_our_client_reports_why_a_server_died_and_restarts_it(name, tmp_path):
    """If this fails for another library, it has gained the feature, and the README must be updated."""
    server = tmp_path / "dying.py"
    server.write_text(DYING)
    done = run_client([*CLIENTS[name](), sys.executable, str(server)], tmp_path)
    report = json.loads(done.stdout)
    names_the_reason = all(word in report["lost"] for word in ("exit code 3", "the disk is on fire"))
    assert (names_the_reason, report["next"] == "alive") == ((True, True) if name == "twopipes" else (False, False)), report


@pytest.mark.parametrize(("name", "least", "most"), [("official-2", 25, 35), ("fastmcp-4", 60, 80)])
def test_the_number_of_packages_that_the_others_install(name, least, most):
    peer(name)
    assert least <= len(list((INSTALLED / name).glob("lib/python*/site-packages/*.dist-info"))) <= most
