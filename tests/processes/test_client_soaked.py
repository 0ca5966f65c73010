"""What the soak has shown, reduced: each of these was lost, or took another way than it should, once in thousands of calls."""

from processes.client_stage import AT_ONCE, staged

# Dies in the middle of its first answer to a call.
DIES_WHILE_IT_ANSWERS = """
    from speak import *
    def look(message):
        if LIFE == 1:
            write(words(message, "x" * 1000)[:500])
            os._exit(7)
        answer(message)
    serve(look=look)
"""
# Speaks both eras. Its first process dies when it is called, its second one of something that has nothing to do with the probe.
DIES_TWICE = """
    from speak import *
    def look(message):
        if LIFE == 1:
            os._exit(7)
        answer(message)
    tools = {"look": look}
    while (message := hear()) is not None:
        if LIFE == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        handle(message, "legacy" if message["method"] == "initialize" else "modern", tools, ())
"""


@staged
async def test_a_call_whose_answer_was_cut_off_by_the_death_of_the_server_is_sent_again(stage):
    """SD-03, SD-05."""
    async with stage.connect(DIES_WHILE_IT_ANSWERS, restart=AT_ONCE) as client:
        await client.list_tools()
        assert (await client.call_tool("look")).text == "life 2"
        assert client.stray[0].excerpt.startswith('{"jsonrpc"')  # and what was left of it can be looked at


@staged
async def test_a_modern_server_that_dies_once_while_it_is_started_again_is_still_a_modern_one(stage):
    """DE-06, DE-07: it was seen to take the probe well, so it died of something else."""
    async with stage.connect(DIES_TWICE, restart=AT_ONCE) as client:
        await client.list_tools()
        assert (await client.call_tool("look")).text == "life 3"
        assert client.era == "modern"
    async with stage.connect(DIES_TWICE) as client:  # nor was anything wrong learnt
        assert client.era == "modern"
