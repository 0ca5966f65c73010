"""When a crashed child is restarted, and when not any more (SD-04). No process is started, and no clock is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twopipes._process.restarts import Restarts
from twopipes.settings import RestartPolicy

seconds = st.floats(0.0, 1e6)
policies = st.builds(
    RestartPolicy,
    first_delay=seconds,
    factor=st.floats(1.0, 1e300),
    max_delay=seconds,
    jitter=st.floats(0.0, 1.0),
    max_restarts=st.none() | st.integers(0, 20),
    window=seconds,
    healthy_after=seconds,
)
# The range of random.random, which excludes 1.
chances = st.floats(0.0, 1.0, exclude_max=True)


def restarts(*, chance=0.0, **options):
    return Restarts(RestartPolicy(**options), random=lambda: chance)


def delays(supervised, *, count, gap=0.0, uptime=0.0):
    return [supervised.crashed(number * gap, uptime) for number in range(count)]


@given(policies, st.lists(st.tuples(seconds, seconds, chances), max_size=40))
def test_a_delay_is_never_negative_and_never_past_the_cap(policy, crashes):
    """SD-04."""
    now, drawn = 0.0, iter([chance for _, _, chance in crashes])
    supervised = Restarts(policy, random=lambda: next(drawn))
    for gap, uptime, _ in crashes:
        now += gap
        delay = supervised.crashed(now, uptime)
        assert (delay is None) == supervised.is_open(now) == (supervised.why(now) != "")
        assert delay is None or 0.0 <= delay <= policy.max_delay


@given(policies, st.integers(1, 60), chances)
def test_delays_do_not_get_shorter_while_the_child_keeps_dying(policy, count, chance):
    supervised = Restarts(policy, random=lambda: chance)
    # Too short a life to be a healthy one, unless no life is.
    given_ = [delay for delay in delays(supervised, count=count, uptime=-1.0) if delay is not None]
    assert given_ == sorted(given_)


@given(policies, st.integers(1, 60), chances)
def test_jitter_only_shortens_a_delay_within_its_limit(policy, count, chance):
    exact = delays(Restarts(policy, random=lambda: 0.0), count=count)
    for plain, drawn in zip(exact, delays(Restarts(policy, random=lambda: chance), count=count), strict=True):
        assert (plain is None) == (drawn is None)
        if plain is not None:
            assert plain * (1 - policy.jitter) * 0.999_999 <= drawn <= plain


@given(st.integers(0, 20), st.floats(1.0, 1e6))
def test_the_breaker_opens_after_so_many_restarts_and_closes_after_the_window(most, window):
    """SD-04."""
    supervised = restarts(max_restarts=most, window=window, healthy_after=10.0)
    assert None not in delays(supervised, count=most, uptime=1.0)
    assert not supervised.is_open(0.0)
    assert supervised.crashed(0.0, 1.0) is None
    assert supervised.is_open(0.0)
    assert supervised.is_open(window * 0.999)
    assert supervised.closes_in(0.0) == window
    assert not supervised.is_open(window)
    assert supervised.closes_in(window) == 0.0
    # With no restart allowed at all, the next crash opens it again at once.
    assert (supervised.crashed(window, 1.0) is None) == (most == 0)


def test_the_delays_double_up_to_the_cap():
    supervised = restarts(first_delay=0.1, factor=2.0, max_delay=1.0, max_restarts=None)
    assert delays(supervised, count=6) == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])


def test_after_a_restart_without_a_delay_the_next_one_waits():
    supervised = restarts(first_delay=0.0, factor=3.0, max_restarts=None)
    assert delays(supervised, count=4) == pytest.approx([0.0, 0.1, 0.3, 0.9])


def test_a_day_of_crashes_neither_overflows_nor_piles_up():
    supervised = restarts(factor=1e300, max_restarts=None, window=10.0)
    assert delays(supervised, count=5_000, gap=1.0)[-1] == 30.0
    assert len(supervised._crashes) == 10


def test_jitter_shortens_a_delay():
    assert restarts(first_delay=1.0, jitter=0.5, chance=0.5).crashed(0.0, 0.0) == 0.75
    assert restarts(first_delay=1.0, jitter=0.0, chance=0.5).crashed(0.0, 0.0) == 1.0


def test_crashes_that_are_far_apart_do_not_open_the_breaker():
    supervised = restarts(max_restarts=2, window=10.0, healthy_after=60.0)
    assert None not in delays(supervised, count=50, gap=5.0, uptime=4.0)


def test_crashes_leave_the_window_one_by_one():
    supervised = restarts(max_restarts=2, window=10.0)
    assert [supervised.crashed(now, 0.0) is None for now in (0.0, 4.0, 8.0)] == [False, False, True]
    assert supervised.closes_in(8.0) == 2.0
    assert not supervised.is_open(10.0)
    assert supervised.crashed(11.0, 0.0) is None
    assert supervised.closes_in(11.0) == 3.0


def test_a_long_uptime_clears_the_history():
    supervised = restarts(first_delay=0.1, max_restarts=2, healthy_after=60.0, window=1000.0)
    assert delays(supervised, count=2) == pytest.approx([0.1, 0.2])
    assert supervised.crashed(60.0, 60.0) == pytest.approx(0.1)
    assert supervised.crashed(61.0, 59.9) == pytest.approx(0.2)
    assert supervised.crashed(62.0, 0.0) is None


def test_a_caller_can_report_that_the_child_is_healthy():
    supervised = restarts(first_delay=0.1, max_restarts=1)
    assert supervised.crashed(0.0, 0.0) == pytest.approx(0.1)
    assert supervised.crashed(1.0, 0.0) is None
    supervised.healthy()
    assert not supervised.is_open(2.0)
    assert supervised.crashed(3.0, 0.0) == pytest.approx(0.1)


def test_an_open_breaker_says_why_with_the_counts():
    supervised = restarts(max_restarts=2, window=120.0)
    delays(supervised, count=3, gap=1.5, uptime=0.25)
    assert supervised.why(3.0) == (
        "the server crashed 3 times within 3 s, the last time 0.25 s after its start; RestartPolicy allows 2 restarts in 120 s, "
        "so the next one is possible in 117 s. Look at its stderr for the cause, or change RestartPolicy"
    )
    assert supervised.why(200.0) == ""


def test_a_server_that_is_never_restarted_says_why_too():
    supervised = restarts(max_restarts=0, window=60.0)
    assert supervised.crashed(0.0, 5.0) is None
    assert supervised.why(0.0).startswith(
        "the server crashed once within 0 s, the last time 5 s after its start; RestartPolicy allows 0 restarts in 60 s"
    )
