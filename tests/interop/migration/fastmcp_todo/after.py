"""Things to do."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypedDict

from twopipes import Context, Server, ToolError

mcp = Server("Todo", version="0.3")


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


class Which(TypedDict):
    value: Literal["done", "all"]


tasks: dict[int, Task] = {}
state: dict[str, int] = {}


@mcp.tool
async def add(what: str, ctx: Context, priority: Priority = Priority.NORMAL) -> Task:
    """Puts a task on the list."""
    number = len(tasks) + 1
    tasks[number] = Task(number, what, priority)
    state["latest"] = number
    await ctx.log("warning", "that is much to do") if len(tasks) > 2 else None
    return tasks[number]


@mcp.tool(annotations={"idempotentHint": True})
async def finish(ctx: Context, number: int | None = None) -> Task:
    """Ticks off a task: that of a number, or the latest one."""
    number = number or state.get("latest")
    if number not in tasks:
        raise ToolError("There is no such task.")
    tasks[number].done = True
    return tasks[number]


@mcp.tool
async def clear(ctx: Context) -> str:
    """Takes tasks off the list; asks which."""
    answer = await ctx.elicit("Which tasks shall go?", Which)
    if answer.action != "accept":
        return "Nothing was taken off."
    gone = [number for number, task in tasks.items() if task.done or answer.content["value"] == "all"]
    for number in gone:
        del tasks[number]
    return f"{len(gone)} taken off."


@mcp.tool
async def plan(ctx: Context) -> str:
    """Has the client's model make a plan for the day."""
    listed = open_tasks()
    reply = await ctx.sample(f"Plan my day:\n{listed}", max_tokens=200, system_prompt="Be brief.")
    return reply.content.text


@mcp.tool
def break_down(number: int) -> list[str]:
    """Breaks a task down into its words, which is a start."""
    return tasks[number].what.split()


@mcp.resource("todo://open", mime_type="text/plain")
def open_tasks() -> str:
    """What is still to do."""
    return "\n".join(f"{task.number}. {task.what}" for task in tasks.values() if not task.done)


@mcp.prompt(name="daily", description="Looks back at the day.")
def look_back() -> str:
    return f"I had {len(tasks)} things to do. How did I do?"


if __name__ == "__main__":
    mcp.run()
