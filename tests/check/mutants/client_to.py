"""Clients that wait for ever, or do not say that they have stopped, one each."""

from check.full_tour import tour
from check.mutation import message_mutant, raw_mutant
from twopipes._tools.check.client_run import InProcessDriver
from twopipes.settings import Timeouts


def driven(**timeouts):
    async def patient(server):
        await tour(server, timeouts=Timeouts(**timeouts))

    return InProcessDriver(patient)


@raw_mutant("TO-01")
def waits_for_ever():
    return driven(request=None, total=None)


@message_mutant("TO-02")
def does_not_cancel(message):
    return None if message.get("method") == "notifications/cancelled" else message


@message_mutant("TO-02", revision="2025-11-25")
def does_not_cancel_in_a_session(message):
    return None if message.get("method") == "notifications/cancelled" else message


@raw_mutant("TO-03")
def waits_as_long_as_there_is_progress():
    return driven(request=0.5, total=None)
