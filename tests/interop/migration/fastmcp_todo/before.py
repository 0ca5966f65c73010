"""Things to do."""

from dataclasses import dataclass
from enum import StrEnum

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from mcp_types import SamplingMessage, TextContent

mcp = FastMCP("Todo", version="0.3", mask_error_details=True)


class Priority(StrEnum):
    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


@dataclass
class Task:
    number: int
    what: str
    priority: Priority = Priority.NORMAL
    done: bool = False


tasks: dict[int, Task] = {}


@mcp.tool
async def add(what: str, ctx: Context, priority: Priority = Priority.NORMAL) -> Task:
    """Puts a task on the list."""
    number = len(tasks) + 1
    tasks[number] = Task(number, what, priority)
    await ctx.set_state("latest", number)
    await ctx.warning("that is much to do") if len(tasks) > 2 else None
    return tasks[number]


@mcp.tool(annotations={"idempotentHint": True})
async def finish(ctx: Context, number: int | None = None) -> Task:
    """Ticks off a task: that of a number, or the latest one."""
    number = number or await ctx.get_state("latest")
    if number not in tasks:
        raise ToolError("There is no such task.")
    tasks[number].done = True
    return tasks[number]


@mcp.tool
async def clear(ctx: Context) -> str:
    """Takes tasks off the list; asks which."""
    answer = await ctx.elicit("Which tasks shall go?", response_type=["done", "all"])
    if answer.action != "accept":
        return "Nothing was taken off."
    gone = [number for number, task in tasks.items() if task.done or answer.data == "all"]
    for number in gone:
        del tasks[number]
    return f"{len(gone)} taken off."


@mcp.tool
async def plan(ctx: Context) -> str:
    """Has the client's model make a plan for the day."""
    listed = (await ctx.read_resource("todo://open")).contents[0].content
    question = SamplingMessage(role="user", content=TextContent(type="text", text=f"Plan my day:\n{listed}"))
    reply = await ctx.session.create_message([question], max_tokens=200, system_prompt="Be brief.")
    return reply.content.text


@mcp.tool
def break_down(number: int) -> list[str]:
    """Breaks a task down into its words, which is a start."""
    return tasks[number].what.split()


@mcp.resource("todo://open")
def open_tasks() -> str:
    """What is still to do."""
    return "\n".join(f"{task.number}. {task.what}" for task in tasks.values() if not task.done)


@mcp.prompt("daily", description="Looks back at the day.")
def look_back() -> str:
    return f"I had {len(tasks)} things to do. How did I do?"


if __name__ == "__main__":
    mcp.run(transport="stdio")
