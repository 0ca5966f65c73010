"""Short runs of the program that attacks a group of servers for minutes: see ``tests/soak/attack_group.py``."""

from pathlib import Path

import pytest

SOAK = Path(__file__).parents[1] / "soak"
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_only_the_killed_server_of_a_group_is_affected_and_nothing_is_left(run, seed):
    done = run(SOAK / "attack_group.py", "--rounds", "4", "--seconds", "40", "--seed", seed)
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
