"""Short runs of the programs that attack the gateway for minutes: see ``tests/soak/attack_gateway.py`` and ``soak_share.py``."""

from pathlib import Path

import pytest

SOAK = Path(__file__).parents[1] / "soak"
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_every_call_has_an_outcome_and_no_process_remains_when_one_is_killed(run, seed):
    done = run(SOAK / "attack_gateway.py", "--rounds", "4", "--seconds", "60", "--seed", seed)
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()


def test_hosts_share_one_server_without_mixing_their_calls(run):
    done = run(SOAK / "soak_share.py", "--hosts", "3", "--seconds", "4")
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
