"""What the README's table says of us and of the others, where the scoreboard does not show it already."""

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
    "twopipes": lambda: [sys.executable, str(SCRIPTS / "twopipes_bereaved.py")],
    "official-2": lambda: [python_of("official-2"), str(SCRIPTS / "official_2_bereaved.py")],
    "fastmcp": lambda: [python_of("fastmcp-4"), str(SCRIPTS / "fastmcp_bereaved.py")],
    "typescript": lambda: node_script("typescript_bereaved.mjs"),
}


@pytest.mark.parametrize("name", CLIENTS)
def test_who_says_how_a_server_died_and_starts_it_again(name, tmp_path):
    """If this fails for one of the others, they have learnt it, and the README must say so."""
    server = tmp_path / "dying.py"
    server.write_text(DYING)
    done = run_client([*CLIENTS[name](), sys.executable, str(server)], tmp_path)
    told = json.loads(done.stdout)
    knows = all(word in told["lost"] for word in ("exit code 3", "the disk is on fire"))
    assert (knows, told["next"] == "alive") == ((True, True) if name == "twopipes" else (False, False)), told


@pytest.mark.parametrize(("name", "least", "most"), [("official-2", 25, 35), ("fastmcp-4", 60, 80)])
def test_how_many_packages_the_others_install(name, least, most):
    peer(name)
    assert least <= len(list((INSTALLED / name).glob("lib/python*/site-packages/*.dist-info"))) <= most
