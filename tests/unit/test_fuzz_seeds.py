"""Check the invariants of the fuzzer on its seeds, without the fuzzer."""

from pathlib import Path

import pytest

from decoder_invariants import BATCH_LIMITS, LINE_LIMITS, check_bytes, check_stream

SEEDS = Path(__file__).parents[2] / "fuzz" / "seeds"
seeds = pytest.mark.parametrize("seed", sorted(SEEDS.iterdir()), ids=lambda seed: seed.name)


def test_there_are_seeds():
    assert len(list(SEEDS.iterdir())) > 40


@seeds
def test_a_seed_holds_every_invariant(seed):
    check_bytes(seed.read_bytes())


@seeds
@pytest.mark.parametrize("max_line", LINE_LIMITS)
@pytest.mark.parametrize("max_batch", BATCH_LIMITS)
def test_a_seed_holds_every_invariant_byte_by_byte(seed, max_line, max_batch):
    """FR-13, JR-20."""
    data = seed.read_bytes()
    check_stream(data, range(len(data)), max_line=max_line, max_batch=max_batch)
