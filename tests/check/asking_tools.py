"""Tools for the healthy server that ask in ways the example does not: a tool loop, and an action that happens once."""

from twopipes import Context, Server, ToolError
from twopipes._protocol.types import (
    SamplingMessage,
    TextContent,
    Tool,
    ToolChoice,
    ToolResultContent,
    ToolUseContent,
)

CLOCK = Tool("clock", {"type": "object", "properties": {}}, description="Tells the time.")
YES = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
MOST_ROUNDS = 3


def add_asking_tools(server: Server) -> None:
    redeemed = set()

    async def agent(ctx: Context) -> str:
        """Let the client's model use a tool, a few times at most."""
        messages = [SamplingMessage("user", TextContent("What is the time?"))]
        for _ in range(MOST_ROUNDS):
            answer = await ctx.sample(messages, max_tokens=50, tools=[CLOCK], tool_choice=ToolChoice("auto"))
            used = [block for block in answer.blocks if isinstance(block, ToolUseContent)]
            if not used:
                return answer.text
            results = [ToolResultContent(block.id, [TextContent("noon")]) for block in used]
            messages += [SamplingMessage("assistant", answer.content), SamplingMessage("user", results)]
        return "enough"

    async def redeem(ctx: Context) -> str:
        """Do something once for each connection, if the user agrees."""
        answer = await ctx.elicit("Redeem the voucher?", YES)
        if answer.action != "accept":
            return "kept"
        if ctx._connection in redeemed:
            raise ToolError("The voucher was redeemed already.")
        redeemed.add(ctx._connection)
        return "redeemed"

    server.add_tool(agent)
    server.add_tool(redeem)
