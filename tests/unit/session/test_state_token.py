"""Sealed states. Their use in a session is tested in test_inputs."""

import base64

import pytest

from sessions import KEY
from twopipes._protocol import types
from twopipes._session.state_token import StateSealer, binding_of
from twopipes.errors import InvalidParams, LocalProtocolError

BINDING = binding_of("tools/call", {"name": "echo"})


def sealed(**changes):
    options = {"binding": BINDING, "expires": 100.0, **changes}
    return StateSealer(KEY).seal({"answers": [1, "é"]}, **options)


def opened(state, **changes):
    options = {"binding": BINDING, "now": 99.0, **changes}
    return StateSealer(KEY).open(state, dict, **options)


def test_what_was_sealed_comes_back():
    assert opened(sealed()) == {"answers": [1, "é"]}


def test_another_process_with_the_same_key_opens_it_and_one_with_another_key_does_not():
    """ST-03, MR-15."""
    assert opened(sealed())
    for other in (StateSealer(), StateSealer(KEY + b"!")):
        with pytest.raises(InvalidParams, match="does not belong"):
            other.open(sealed(), dict, binding=BINDING, now=0.0)


def test_a_state_dies_at_its_time():
    """MR-16."""
    assert opened(sealed(), now=99.9)
    with pytest.raises(InvalidParams, match="expired"):
        opened(sealed(), now=100.0)


def test_a_state_is_good_for_one_binding_alone():
    """MR-16."""
    with pytest.raises(InvalidParams, match="does not belong"):
        opened(sealed(), binding=binding_of("tools/call", {"name": "other"}))


@pytest.mark.parametrize("state", ["", ".", "..", "a.b", "a.b.c.d", "é.é.é", "a=.b.c", "a b.c.d", "\0.\0.\0", "." * 9])
def test_an_invalid_state_is_rejected(state):
    """MR-15."""
    with pytest.raises(InvalidParams):
        opened(state)


def test_every_changed_character_is_noticed():
    """MR-15."""
    state = sealed()
    for index in range(len(state)):
        for other in "A-_.=":
            changed = state[:index] + other + state[index + 1 :]
            if changed != state:
                with pytest.raises(InvalidParams):
                    opened(changed)
        with pytest.raises(InvalidParams):
            opened(state[:index])


def test_a_state_has_one_spelling():
    """MR-15. Base64 lets the last character of a part differ in bits that mean nothing; here it does not."""
    body, deadline, mac = sealed().split(".")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    same = [
        mac[:-1] + last
        for last in alphabet
        if base64.urlsafe_b64decode(mac[:-1] + last + "=") == base64.urlsafe_b64decode(mac + "=")
    ]
    assert len(same) > 1
    assert [spelling for spelling in same if accepted(f"{body}.{deadline}.{spelling}")] == [mac]


def accepted(state):
    try:
        opened(state)
    except InvalidParams:
        return False
    return True


def test_parts_cannot_be_swapped_between_states():
    """MR-15."""
    one = sealed().split(".")
    two = sealed(expires=200.0).split(".")
    for index in (1, 2):
        mixed = one.copy()
        mixed[index] = two[index]
        with pytest.raises(InvalidParams):
            opened(".".join(mixed))


def test_a_state_with_another_content_than_expected_is_refused():
    """A key may be shared with a program that seals other payloads."""
    with pytest.raises(InvalidParams, match="was not issued by"):
        StateSealer(KEY).open(sealed(), int, binding=BINDING, now=0.0)


def test_a_short_key_is_refused_and_no_key_is_shown():
    with pytest.raises(LocalProtocolError, match="16 bytes"):
        StateSealer(b"short")
    assert KEY.decode() not in repr(StateSealer(KEY))


def test_a_binding_holds_what_a_retry_keeps_and_not_what_it_changes():
    """MR-16."""
    first = binding_of("tools/call", types.CallToolParams("echo", arguments={"a": 1, "b": 2}, meta={"x": 1}))
    again = types.CallToolParams("echo", arguments={"b": 2, "a": 1}, input_responses={}, request_state="s", meta={"x": 2})
    assert binding_of("tools/call", again) == first
    assert binding_of("prompts/get", again) != first
    assert binding_of("tools/call", types.CallToolParams("echo", arguments={"a": 1, "b": 3})) != first
    assert binding_of("tools/call", types.CallToolParams("other", arguments={"a": 1, "b": 2})) != first
    assert binding_of("tools/call", again, principal="anna") != first
