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

# Seconds. Each response that never comes costs this much.
HASTY = Timeouts(connect=0.8, probe=0.5, request=0.8, total=2)
CAN = {"options": ClientOptions(sample_tools=True), "on_elicit_url": lambda question: question.accept()}


def capable_client(mutate=None, **options):
    """Return a driver of a client that declares all capabilities and uses all features."""
    return InProcessDriver(lambda launcher: tour(_mutated(launcher, mutate), **{**CAN, "timeouts": scaled(HASTY), **options}))


def changing_roots(**options):
    """Return a driver of a client that lets the server ask for its roots twice, and changes them in between."""

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
    """Answer every prompt with the use of a tool."""
    return CreateMessageResult("assistant", [ToolUseContent("use-1", "clock", {})], "stubborn", "toolUse")
