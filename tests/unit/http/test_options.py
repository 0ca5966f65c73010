from math import inf, nan

import pytest

from twopipes._http.options import HttpOptions


def test_the_defaults_are_valid_and_bounded():
    options = HttpOptions()
    assert (options.path, options.health) == ("/mcp", "/health")
    assert options.max_body == 4 * 1024 * 1024
    assert not options.public


@pytest.mark.parametrize("path", ["mcp", "", "/mcp?x=1", "/a b", "/a#b", "/é", "/a\n", None, 3])
def test_a_malformed_path_is_rejected(path):
    with pytest.raises(ValueError, match=r"HttpOptions\.path must be a path that starts with '/'"):
        HttpOptions(path=path)


def test_the_health_path_may_be_switched_off_but_not_be_the_endpoint():
    assert HttpOptions(health=None).health is None
    with pytest.raises(ValueError, match=r"must differ from HttpOptions\.path"):
        HttpOptions(path="/x", health="/x")


@pytest.mark.parametrize("name", ["max_body", "max_requests", "max_streams", "max_sessions", "events_per_stream", "event_bytes"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, None, "1"])
def test_a_count_is_an_integer_of_at_least_one(name, value):
    with pytest.raises(ValueError, match=f"HttpOptions.{name} must be an integer of at least 1"):
        HttpOptions(**{name: value})


@pytest.mark.parametrize("name", ["session_idle", "keep_alive", "write_timeout", "read_timeout"])
@pytest.mark.parametrize("value", [0, -1, nan, inf, None, "1"])
def test_a_time_is_finite_and_over_zero(name, value):
    with pytest.raises(ValueError, match=f"HttpOptions.{name} must be a finite number of seconds over 0"):
        HttpOptions(**{name: value})


@pytest.mark.parametrize(("name", "entry"), [("origins", "https://a.example"), ("hosts", "a.example:8443")])
def test_names_are_a_tuple_of_strings(name, entry):
    assert getattr(HttpOptions(**{name: (entry,)}), name) == (entry,)
    with pytest.raises(ValueError, match=rf"HttpOptions.{name} must be a tuple of strings, got '.*'; write \('{entry}',\)"):
        HttpOptions(**{name: entry})
    with pytest.raises(ValueError, match=f"HttpOptions.{name} must be a tuple of strings"):
        HttpOptions(**{name: (3,)})
    for wrong in ("", " a", "/a"):
        with pytest.raises(ValueError, match=f"HttpOptions.{name} must contain"):
            HttpOptions(**{name: (wrong,)})


def test_responses_is_one_of_two_words():
    assert HttpOptions(responses="stream").responses == "stream"
    with pytest.raises(ValueError, match="must be 'auto' or 'stream', got 'json'"):
        HttpOptions(responses="json")


def test_a_session_prefix_fits_into_a_header_and_the_pattern_of_a_balancer():
    assert HttpOptions(session_prefix="worker-1_a").session_prefix == "worker-1_a"
    for wrong in ("a.b", "a b", "é", "a\n", "x" * 33):
        with pytest.raises(ValueError, match=r"HttpOptions\.session_prefix must have at most 32"):
            HttpOptions(session_prefix=wrong)
