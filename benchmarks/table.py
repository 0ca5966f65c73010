"""The results of a run as tables of Markdown, which also read well in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from targets import BY_HAND, OFFICIAL, TYPESCRIPT, Ratio

COLUMNS = {"the official Python SDK": OFFICIAL, "the TypeScript SDK": TYPESCRIPT, "by hand": BY_HAND}
MARKS = {"met": "", "missed": " **missed**", "no target": ""}


def targets_table(ratios: Iterable[Ratio]) -> str:
    """The table of targets: a row for each figure, a column for each opponent; ratio, spread and target in each cell."""
    rows: dict[str, dict[str, str]] = {}
    for ratio in ratios:
        row = rows.setdefault(ratio.target.figure, {})
        column = next((title for title, name in COLUMNS.items() if (ratio.target.against or "").startswith(name)), "otherwise")
        row[column] = cell(ratio)
    head = ["twopipes over ...", *COLUMNS, "otherwise"]
    return grid(head, [[figure, *(row.get(column, "") for column in head[1:])] for figure, row in rows.items()])


def cell(ratio: Ratio) -> str:
    """One ratio: ``0.11 (0.10 to 0.12), at most 0.111``."""
    if ratio.median is None or ratio.low is None or ratio.high is None:
        return "left out" if ratio.why is None else f"failed: {ratio.why}"
    said = f"{short(ratio.median)} ({short(ratio.low)} to {short(ratio.high)})"
    if ratio.target.bound is not None:
        said += f", {'at most' if ratio.better == 'lower' else 'at least'} {short(ratio.target.bound)}"
    return said + MARKS.get(ratio.verdict, "")


def figures_tables(figures: Mapping[str, Mapping[str, Any]]) -> str:
    """A table for each figure: a row for each metric, a column for each contender."""
    groups: dict[str, list[str]] = {}
    for name in figures:
        groups.setdefault(name.split("/", 1)[0], []).append(name)
    return "\n\n".join(f"## {group}\n\n{_group(figures, names)}" for group, names in groups.items())


def _group(figures: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> str:
    contenders = list(dict.fromkeys(contender for name in names for contender in figures[name]["contenders"]))
    rows = []
    for name in names:
        metric = figures[name]
        cells = [_value(metric["contenders"].get(contender), metric["unit"]) for contender in contenders]
        rows.append([name.split("/", 1)[1], *cells])
    return grid(["", *contenders], rows)


def _value(taken: Mapping[str, float] | None, unit: str) -> str:
    if taken is None:
        return "-"
    low, middle, high = (in_unit(taken[key], unit) for key in ("low", "median", "high"))
    return middle if low == high else f"{middle} ({low} to {high})"


def in_unit(value: float, unit: str) -> str:
    """Return a value as text, with its unit."""
    if unit == "B":
        return f"{value / 1e6:.1f} MB"
    if unit == "s":
        for factor, name in ((1.0, "s"), (1e-3, "ms")):
            if value >= factor:
                return f"{short(value / factor)} {name}"
        return f"{short(value / 1e-6)} us"
    if unit == "1/s":
        return f"{value:,.0f}/s"
    return short(value) if unit == "x" else f"{short(value)} {unit}"


def short(value: float) -> str:
    """Return a number with three significant digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table with aligned columns."""
    widths = [max(len(row[index]) for row in (head, *rows)) for index in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join("| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |" for row in lines)
