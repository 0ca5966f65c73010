"""A client that can answer everything, and ways to change it: by its callbacks, or on the wire."""

from contextlib import suppress

from check.full_tour import tour
from check.mutation import MutatingChannel
from check.time_scale import scaled
from twopipes import TwopipesError, connect
from twopipes._protocol.types import CreateMessageResult, ToolUseContent
from twopipes._tools.check.client_run import InProcessDriver
from twopipes.settings import Timeouts
from twopipes.types import ClientOptions

# Seconds. What is waited for in vain costs this much each time.
HASTY = Timeouts(connect=0.8, probe=0.5, request=0.8, total=2)
CAN = {"options": ClientOptions(sample_tools=True), "on_elicit_url": lambda question: question.accept()}


def capable_client(mutate=None, **options):
    """The tour of a client that declares everything."""
    return InProcessDriver(lambda launcher: tour(_mutated(launcher, mutate), **{**CAN, "timeouts": scaled(HASTY), **options}))


def changing_roots(**options):
    """A client that asks nothing but for its roots to be asked for, and changes them between the two times."""

    async def change(launcher):
        async with connect(launcher, roots=["file:///home/anna"], timeouts=scaled(HASTY), **options) as client:
            await client.list_tools()
            for name in ("roots", "roots-again"):
                with suppress(TwopipesError):
                    await client.call_tool(name)
                client.set_roots(["file:///home/bert"])

    return InProcessDriver(change)


def _mutated(launcher, mutate):
    if mutate is None:
        return launcher

    class Mutated:
        async def serve(self, *, channel):
            await launcher.serve(channel=MutatingChannel(channel, mutate, reader_is_check=True))

    return Mutated()


def uses_a_tool(_question):
    """A model that uses a tool whatever the prompt is."""
    return CreateMessageResult("assistant", [ToolUseContent("use-1", "clock", {})], "stubborn", "toolUse")
