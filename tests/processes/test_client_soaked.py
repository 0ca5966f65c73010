"""Failures that the soak test found, reduced to small tests: each happened once in thousands of calls."""

from processes.client_stage import AT_ONCE, staged

# Exits in the middle of its first response to a call.
DIES_WHILE_IT_ANSWERS = """
    from speak import *
    def look(message):
        if LIFE == 1:
            write(words(message, "x" * 1000)[:500])
            os._exit(7)
        answer(message)
    serve(look=look)
"""
# Supports both eras. Its first process exits when a tool is called, its second one for a reason unrelated to the probe.
DIES_TWICE = """
    from speak import *
    def look(message):
        if LIFE == 1:
            os._exit(7)
        answer(message)
    tools = {"look": look}
    while (message := receive()) is not None:
        if LIFE == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        handle(message, "legacy" if message["method"] == "initialize" else "modern", tools, ())
"""


@staged
async def test_a_call_with_a_partial_response_before_a_crash_is_sent_again(stage):
    """SD-03, SD-05."""
    async with stage.connect(DIES_WHILE_IT_ANSWERS, restart=AT_ONCE) as client:
        await client.list_tools()
        assert (await client.call_tool("look")).text == "life 2"
        assert client.stray[0].excerpt.startswith('{"jsonrpc"')  # the partial line is kept for inspection


@staged
async def test_a_modern_server_that_crashes_during_a_restart_is_still_modern(stage):
    """DE-06, DE-07: it has survived the probe before, so it exited for another reason."""
    async with stage.connect(DIES_TWICE, restart=AT_ONCE) as client:
        await client.list_tools()
        assert (await client.call_tool("look")).text == "life 3"
        assert client.era == "modern"
    async with stage.connect(DIES_TWICE) as client:  # and the cached era is still right
        assert client.era == "modern"
