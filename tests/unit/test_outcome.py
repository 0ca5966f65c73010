"""Errors as values: which errors become values."""

import asyncio
import typing

import pytest

from twopipes.errors import McpError, RemoteProtocolError, RequestTimedOut, TwopipesError
from twopipes.outcome import Err, Ok, Outcome, attempt

TOO_LATE = RequestTimedOut("tools/call", 7, waited=60.0, limit="idle")


async def returns(value):
    return value


async def raises(error):
    raise error


def describe(outcome):
    match outcome:
        case Ok([]):
            return "nothing"
        case Ok(value):
            return f"got {value}"
        case Err(RequestTimedOut(method=method)):
            return f"{method} was too slow"
        case Err(error):
            return f"failed: {error}"


def test_a_value_comes_back_as_it_is():
    outcome = asyncio.run(attempt(returns([1, 2])))
    assert outcome == Ok([1, 2])
    assert outcome.is_ok is True
    assert outcome.unwrap() == outcome.value == [1, 2]


def test_none_is_a_value_too():
    assert asyncio.run(attempt(returns(None))) == Ok(None)


@pytest.mark.parametrize("error", [TOO_LATE, McpError("no"), RemoteProtocolError("what?"), TwopipesError()], ids=repr)
def test_every_error_of_twopipes_becomes_a_value(error):
    outcome = asyncio.run(attempt(raises(error)))
    assert outcome.is_ok is False
    assert outcome.error is error
    with pytest.raises(type(error)) as caught:
        outcome.unwrap()
    assert caught.value is error


@pytest.mark.parametrize(
    "error", [ValueError("a bug"), TimeoutError(), ConnectionError(), KeyboardInterrupt(), StopAsyncIteration()]
)
def test_every_other_exception_is_raised(error):
    async def main():
        with pytest.raises(type(error)) as caught:
            await attempt(raises(error))
        return caught.value

    assert asyncio.run(main()) is error


def test_a_cancellation_is_raised():
    async def main():
        attempted = asyncio.ensure_future(attempt(asyncio.get_running_loop().create_future()))
        await asyncio.sleep(0)
        attempted.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attempted
        return attempted.cancelled()

    assert asyncio.run(main())


def test_anything_that_can_be_awaited_can_be_attempted():
    async def main():
        future = asyncio.get_running_loop().create_future()
        future.set_exception(TOO_LATE)
        return await attempt(future), await attempt(asyncio.create_task(returns(1)))

    assert asyncio.run(main()) == (Err(TOO_LATE), Ok(1))


@pytest.mark.parametrize(
    ("outcome", "sentence"),
    [
        (Ok([]), "nothing"),
        (Ok(5), "got 5"),
        (Err(TOO_LATE), "tools/call was too slow"),
        (Err(McpError("no", code=-1)), "failed: no (code -1)"),
    ],
)
def test_outcomes_are_distinguished_with_match(outcome, sentence):
    assert describe(outcome) == sentence


@pytest.mark.parametrize(("outcome", "name"), [(Ok(1), "value"), (Err(TOO_LATE), "error")])
def test_an_outcome_is_immutable_and_has_no_dict(outcome, name):
    with pytest.raises(AttributeError):
        setattr(outcome, name, 2)
    with pytest.raises(AttributeError):
        outcome.more = 2
    assert not hasattr(outcome, "__dict__")


def test_outcomes_compare_by_value_and_can_be_keys():
    assert Ok(1) != Ok(2)
    assert Ok(TOO_LATE) != Err(TOO_LATE)
    assert Err(TOO_LATE) != Err(RequestTimedOut("tools/call", 7, waited=60.0, limit="idle"))
    assert {Ok(1), Ok(1), Err(TOO_LATE), Err(TOO_LATE)} == {Ok(1), Err(TOO_LATE)}


def test_the_name_for_both_can_be_used_in_annotations():
    assert typing.get_args(Outcome[int]) == (Ok[int], Err)
