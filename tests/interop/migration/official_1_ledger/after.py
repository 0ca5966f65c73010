"""What was spent on what, in SQLite."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pydantic import BaseModel, Field

from twopipes import Context, Server, ToolError


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
async def opened(server: Server) -> AsyncIterator[Books]:
    db = sqlite3.connect(":memory:", check_same_thread=False)
    db.execute("CREATE TABLE expense (what TEXT, cents INTEGER)")
    try:
        yield Books(db)
    finally:
        db.close()


mcp = Server("Ledger", instructions="Keeps the books.", lifespan=opened)


@mcp.tool()
async def spend(expense: Expense, ctx: Context) -> Total:
    """Write an expense down."""
    if expense.cents > 10_000:
        answer = await ctx.elicit(f"{expense.cents} cents for {expense.what}?", Approval)
        if answer.action != "accept" or not answer.content.approve:
            raise ToolError(f"{expense.what} was not approved")
    db = ctx.lifespan.db
    db.execute("INSERT INTO expense VALUES (?, ?)", (expense.what, expense.cents))
    await ctx.log("info", f"spent {expense.cents}")
    return total(ctx)


@mcp.tool(annotations={"readOnlyHint": True})
def total(ctx: Context) -> Total:
    """Add everything up."""
    db = ctx.lifespan.db
    count, cents = db.execute("SELECT count(*), coalesce(sum(cents), 0) FROM expense").fetchone()
    return Total(count=count, cents=cents)


@mcp.tool()
async def query(sql: str, ctx: Context, limit: int = 10) -> list[str]:
    """Run a query of your own."""
    rows = ctx.lifespan.db.execute(sql).fetchmany(limit)
    for number, _ in enumerate(rows, start=1):
        await ctx.progress(number, len(rows))
    return [" ".join(map(str, row)) for row in rows]


@mcp.tool()
async def advice(ctx: Context) -> str:
    """Have the client's model look at the books."""
    question = f"I spent {total(ctx).cents} cents. Is that much?"
    result = await ctx.sample(question, max_tokens=100)
    return result.content.text


@mcp.resource("ledger://rules", mime_type="text/plain")
def rules() -> str:
    """What may be spent."""
    return "Nothing over 100 euros."


@mcp.resource("ledger://rules/{language}", mime_type="text/markdown")
def translated(language: str) -> str:
    """The rules in another language."""
    return {"de": "*Nichts* über 100 Euro."}[language]


@mcp.prompt(title="Look at the books")
def audit(month: str) -> list[dict]:
    """Check a month."""
    return [{"role": "user", "content": f"Please check {month}."}, {"role": "assistant", "content": "Which currency?"}]


if __name__ == "__main__":
    mcp.run()
