"""A short run of the soak that ``make soak`` runs for five minutes: see ``tests/soak/soak.py``."""

from pathlib import Path

SOAK = Path(__file__).parents[1] / "soak" / "soak.py"


def test_every_call_ends_with_its_own_result_or_a_named_error_and_no_process_remains(run):
    """SD-03, SD-04, SD-05, CA-07."""
    few = ("--servers", "3", "--calls", "300", "--harm", "5", "--seed", "1")
    done = run(SOAK, *few, "--seconds", "40")
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
