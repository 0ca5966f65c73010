"""What was spent on what, in SQLite."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from mcp.server.fastmcp import Context, FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from mcp.server.fastmcp.prompts import base
from mcp.types import SamplingMessage, TextContent, ToolAnnotations
from pydantic import BaseModel, Field


class Expense(BaseModel):
    """Something that was paid for."""

    what: str
    cents: int = Field(gt=0)


class Total(BaseModel):
    count: int
    cents: int


class Approval(BaseModel):
    approve: bool = Field(description="Really spend that much?")


@dataclass
class Books:
    db: sqlite3.Connection


@asynccontextmanager
async def opened(server: FastMCP) -> AsyncIterator[Books]:
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE expense (what TEXT, cents INTEGER)")
    try:
        yield Books(db)
    finally:
        db.close()


mcp = FastMCP("Ledger", instructions="Keeps the books.", lifespan=opened)


@mcp.tool()
async def spend(expense: Expense, ctx: Context) -> Total:
    """Write an expense down."""
    if expense.cents > 10_000:
        answer = await ctx.elicit(f"{expense.cents} cents for {expense.what}?", Approval)
        if answer.action != "accept" or not answer.data.approve:
            raise ToolError(f"{expense.what} was not approved")
    db = ctx.request_context.lifespan_context.db
    db.execute("INSERT INTO expense VALUES (?, ?)", (expense.what, expense.cents))
    await ctx.info(f"spent {expense.cents}")
    return total(ctx)


@mcp.tool(annotations=ToolAnnotations(readOnlyHint=True))
def total(ctx: Context) -> Total:
    """Add everything up."""
    db = ctx.request_context.lifespan_context.db
    count, cents = db.execute("SELECT count(*), coalesce(sum(cents), 0) FROM expense").fetchone()
    return Total(count=count, cents=cents)


@mcp.tool()
async def query(sql: str, ctx: Context, limit: int = 10) -> list[str]:
    """Run a query of your own."""
    rows = ctx.request_context.lifespan_context.db.execute(sql).fetchmany(limit)
    for number, _ in enumerate(rows, start=1):
        await ctx.report_progress(number, len(rows))
    return [" ".join(map(str, row)) for row in rows]


@mcp.tool()
async def advice(ctx: Context) -> str:
    """Have the client's model look at the books."""
    question = f"I spent {total(ctx).cents} cents. Is that much?"
    message = SamplingMessage(role="user", content=TextContent(type="text", text=question))
    result = await ctx.session.create_message([message], max_tokens=100)
    return result.content.text


@mcp.resource("ledger://rules")
def rules() -> str:
    """What may be spent."""
    return "Nothing over 100 euros."


@mcp.resource("ledger://rules/{language}", mime_type="text/markdown")
def translated(language: str) -> str:
    """The rules in another language."""
    return {"de": "*Nichts* über 100 Euro."}[language]


@mcp.prompt(title="Look at the books")
def audit(month: str) -> list[base.Message]:
    """Check a month."""
    return [base.UserMessage(f"Please check {month}."), base.AssistantMessage("Which currency?")]


if __name__ == "__main__":
    mcp.run(transport="stdio")
