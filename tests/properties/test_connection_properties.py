"""Running connections under random steps; ``make fuzz`` runs many more of them."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import client_invariants
import server_invariants

STEPS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 255)), max_size=40).map(lambda steps: bytes(sum(steps, ())))
EVERY_ENDING = bytes(byte for how in range(len(server_invariants.ENDINGS)) for byte in (0, how, 1, how))
PING_FLOOD = bytes([6, 1]) + bytes([0, 132]) * 190


@settings(max_examples=min(20, settings.default.max_examples), deadline=None)
@given(STEPS)
@example(EVERY_ENDING)
def test_every_request_ends_exactly_once_whatever_its_handler_raises(steps):
    """CA-07."""
    server_invariants.check_steps(steps)


@pytest.mark.slow
@settings(max_examples=min(20, settings.default.max_examples), deadline=None)
@given(STEPS)
@example(PING_FLOOD)
def test_the_client_stops_reading_while_its_server_does_not_read(steps):
    client_invariants.check_steps(steps)
