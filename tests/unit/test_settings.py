"""What can be set: defaults that somebody thought about, and no way to change them behind a connection's back."""

import inspect

import msgspec
import pytest

from twopipes.jsonrpc import decode
from twopipes.settings import Limits, QuestionPolicy, Timeouts
from twopipes.wire import LineDecoder

GROUPS = [Limits, Timeouts, QuestionPolicy]


@pytest.mark.parametrize("group", GROUPS)
def test_every_setting_has_a_default(group):
    assert all(field.default is not msgspec.NODEFAULT for field in msgspec.structs.fields(group))
    assert group() == group()


@pytest.mark.parametrize("group", GROUPS)
def test_settings_are_given_by_name_only(group):
    with pytest.raises(TypeError):
        group(1)


@pytest.mark.parametrize("group", GROUPS)
def test_settings_do_not_change_once_made(group):
    name = group.__struct_fields__[0]
    with pytest.raises(AttributeError):
        setattr(group(), name, 5)


@pytest.mark.parametrize("group", GROUPS)
def test_one_setting_can_be_replaced(group):
    name = group.__struct_fields__[0]
    changed = msgspec.structs.replace(group(), **{name: 5})
    assert getattr(changed, name) == 5
    assert changed != group()


@pytest.mark.parametrize(
    "setting",
    [
        (Limits, "max_line"),
        (Limits, "max_in_flight"),
        (Limits, "max_batch"),
        (Limits, "max_listens"),
        (Limits, "max_watched"),
        (Timeouts, "connect"),
        (Timeouts, "probe"),
        (Timeouts, "request"),
        (Timeouts, "total"),
        (QuestionPolicy, "wait"),
    ],
    ids=lambda setting: f"{setting[0].__name__}.{setting[1]}",
)
def test_none_switches_a_limit_off(setting):
    group, name = setting
    assert getattr(group(**{name: None}), name) is None


def test_the_default_limits_are_those_of_the_decoders():
    of_the_decoder = inspect.signature(LineDecoder).parameters
    assert of_the_decoder["max_line"].default == Limits().max_line == 64 * 1024 * 1024
    assert of_the_decoder["max_excerpt"].default == Limits().max_excerpt
    assert inspect.signature(decode).parameters["max_excerpt"].default == Limits().max_excerpt


def test_a_hard_limit_is_not_shorter_than_an_idle_one():
    """TO-03."""
    assert Timeouts().probe <= Timeouts().connect <= Timeouts().total
    assert Timeouts().request <= Timeouts().total
