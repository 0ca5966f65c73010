"""Settings: defaults, immutability and validation."""

import inspect

import msgspec
import pytest

from twopipes._jsonrpc import decode
from twopipes._wire import LineDecoder
from twopipes.settings import InputPolicy, Limits, RestartPolicy, Timeouts

GROUPS = [Limits, Timeouts, InputPolicy, RestartPolicy]


@pytest.mark.parametrize("group", GROUPS)
def test_every_setting_has_a_default(group):
    assert all(field.default is not msgspec.NODEFAULT for field in msgspec.structs.fields(group))
    assert group() == group()


@pytest.mark.parametrize("group", GROUPS)
def test_settings_are_given_by_name_only(group):
    with pytest.raises(TypeError):
        group(1)


@pytest.mark.parametrize("group", GROUPS)
def test_settings_are_immutable(group):
    name = group.__struct_fields__[0]
    with pytest.raises(AttributeError):
        setattr(group(), name, 5)


@pytest.mark.parametrize("group", GROUPS)
def test_one_setting_can_be_replaced(group):
    name = next(each for each in group.__struct_fields__ if each != "when")  # not a number
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
        (Limits, "max_pages"),
        (Limits, "max_listed"),
        (Limits, "max_tool_turns"),
        (Timeouts, "connect"),
        (Timeouts, "probe"),
        (Timeouts, "request"),
        (Timeouts, "total"),
        (InputPolicy, "wait"),
        (RestartPolicy, "max_restarts"),
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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("first_delay", -0.1),
        ("first_delay", float("inf")),
        ("first_delay", float("nan")),
        ("factor", 0.5),
        ("max_delay", -1.0),
        ("max_delay", float("inf")),
        ("jitter", 1.5),
        ("jitter", -0.5),
        ("window", float("nan")),
        ("healthy_after", -1.0),
        ("max_restarts", -1),
        ("when", "allways"),
        ("resend", "some"),
    ],
)
def test_an_invalid_policy_raises_when_it_is_created(name, value):
    with pytest.raises(ValueError, match=rf"RestartPolicy\.{name} must be .*, got {value!r}"):
        RestartPolicy(**{name: value})


@pytest.mark.parametrize(
    ("when", "modern", "legacy"),
    [("modern", True, False), ("always", True, True), ("never", False, False)],
)
def test_a_policy_covers_eras(when, modern, legacy):
    """SD-04, SD-06: by default a server with a session is not restarted."""
    policy = RestartPolicy(when=when)
    assert (policy.covers("modern"), policy.covers("legacy")) == (modern, legacy)
    assert RestartPolicy() == RestartPolicy(when="modern", resend="safe")
