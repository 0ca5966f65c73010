"""Publish one or two runs of the benchmark: ``publish.py FIRST.json [SECOND.json]``.

The first becomes ``benchmarks/results.json``, which ``make bench-check`` compares with, and gives the plots; the second goes beside
it. The tables of ``docs/explanation/performance.md`` and the line in the README are written from both, between their marks.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import environment  # noqa: E402 - it is in the folder of this file
from table import COLUMNS, grid, short  # noqa: E402

PROJECT = HERE.parent
COMMITTED = (HERE / "results.json", HERE / "results-again.json")
PAGE = PROJECT / "docs" / "explanation" / "performance.md"
README = PROJECT / "README.md"
PLOTS = PROJECT / "docs" / "explanation" / "performance"
BEGIN, END = "<!-- measured: {} -->", "<!-- end of what was measured -->"
# The rows of the short table. The README names the ones in README_ROWS.
IN_SHORT = {
    "launch to tools listed": "launch to tools listed, legacy",
    "launch to tools listed, modern": "launch to tools listed, modern",
    "launch to first tool result": "launch to first tool result",
    "round trip p50, async tool": "one call at a time",
    "pipelined calls/s, async tool, 64 in flight": "calls per second, 64 in flight",
    "server CPU per pipelined call": "CPU of the server per call",
    "RSS after many calls": "memory after many calls",
    "client calls/s, 64 in flight": "calls per second of the client",
}
README_ROWS = [
    "launch to tools listed, modern",
    "one call at a time",
    "calls per second, 64 in flight",
    "memory after many calls",
]
README_COLUMNS = ["the official Python SDK", "the TypeScript SDK"]

Results = Mapping[str, Any]


def main(given: Sequence[str]) -> int:
    """Write everything and return the exit code."""
    if not 1 <= len(given) <= len(COMMITTED):
        print("usage: publish.py FIRST.json [SECOND.json]", file=sys.stderr)
        return 2
    runs = [json.loads(Path(each).read_text()) for each in given]
    for path in COMMITTED:
        path.unlink(missing_ok=True)
    for run, path in zip(runs, COMMITTED, strict=False):
        path.write_text(json.dumps(run, indent=1) + "\n")
    for path, blocks in ((PAGE, page_blocks(runs)), (README, {"in short": readme_line(runs)})):
        path.write_text(filled(path.read_text(), blocks))
    import plots  # noqa: PLC0415 - needs matplotlib, and a wrong call should not

    for drawn in plots.draw(runs[0]["figures"], PLOTS):
        print(f"written: {drawn}")
    return 0


def page_blocks(runs: Sequence[Results]) -> dict[str, str]:
    """Return the blocks of the page, by name."""
    lengths = " and ".join(f"{run['seconds'] // 60} min {run['seconds'] % 60} s" for run in runs)
    about = f"{environment.as_text(runs[0]['environment'])}\n\nThis is the result of {_count(runs)}, of {lengths}."
    return {"machine": about, "in short": summary_table(runs), "targets": targets(runs), "absolute": absolute(runs[0])}


def targets(runs: Sequence[Results]) -> str:
    """Return a row for each figure with a target and a column for each opponent; a cell has both runs and the target."""
    rows: dict[str, dict[str, str]] = {}
    for key, ratio in runs[0]["ratios"].items():
        if ratio["target"] is not None and not ratio["figure"].startswith("line, "):
            rows.setdefault(ratio["figure"], {})[_column(ratio)] = _cell([run["ratios"].get(key) for run in runs])
    head = ["", *(f"over {column}" for column in COLUMNS), "otherwise"]
    columns = [*COLUMNS, "otherwise"]
    return grid(head, [[figure, *(row.get(column, "") for column in columns)] for figure, row in rows.items()])


def summary_table(runs: Sequence[Results]) -> str:
    """Return the most important figures, each from the worst run."""
    head = ["twopipes over ...", *COLUMNS]
    return grid(head, [[words, *(cells.get(column, "") for column in COLUMNS)] for words, cells in summary(runs).items()])


def readme_line(runs: Sequence[Results]) -> str:
    """Return the same as one line, for the README."""
    rows = summary(runs)
    parts = [f"{words} {' and '.join(rows[words][column] for column in README_COLUMNS)}" for words in README_ROWS]
    return f"Ratios over {' and '.join(README_COLUMNS)}, from {_count(runs)}: {'; '.join(parts)}."


def summary(runs: Sequence[Results]) -> dict[str, dict[str, str]]:
    """Return the ratios of the short table, by row and column, each from the worst run."""
    rows = {}
    for figure, words in IN_SHORT.items():
        cells = {}
        for key, ratio in runs[0]["ratios"].items():
            if ratio["figure"] == figure:
                taken = [run["ratios"][key]["median"] for run in runs if run["ratios"].get(key, {}).get("median") is not None]
                if taken:
                    cells[_column(ratio)] = short(max(taken) if ratio["better"] == "lower" else min(taken)) + " x"
        rows[words] = cells
    return rows


def absolute(run: Results) -> str:
    """Return a few absolute figures."""
    shown = {
        "tools listed, ms": ("cold start/tools listed", 1e3),
        "first response, ms": ("cold start/first answer", 1e3),
        "first result, ms": ("cold start/first result of a tool", 1e3),
        "round trip, us": ("round trip/async/p50", 1e6),
        "the same, p99": ("round trip/async/p99", 1e6),
        "round trip, `def`, us": ("round trip/def/p50", 1e6),
        "calls/s, 64 in flight": ("pipelined/async/64/calls per second", 1.0),
        "CPU per call, us": ("pipelined/async/64/CPU per call", 1e6),
        "memory, MB": ("memory/idle", 1e-6),
    }
    known = {name: run["figures"].get(metric, {"contenders": {}})["contenders"] for name, (metric, _) in shown.items()}
    contenders = list(dict.fromkeys(contender for taken in known.values() for contender in taken if "modern" not in contender))
    rows = []
    for contender in contenders:
        cells = [
            short(known[name][contender]["median"] * factor) if contender in known[name] else ""
            for name, (_, factor) in shown.items()
        ]
        rows.append([contender, *cells])
    return grid(["", *shown], rows)


def filled(text: str, blocks: Mapping[str, str]) -> str:
    """Return the text with each block between its marks."""
    for name, block in blocks.items():
        begin = BEGIN.format(name)
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(END)
        if not found or not closed:
            raise ValueError(f"the page lacks {begin} ... {END}")
        text = f"{before}{begin}\n{block}\n{END}{after}"
    return text


def _count(runs: Sequence[Results]) -> str:
    return f"one {runs[0]['scale']} run" if len(runs) == 1 else f"the worse of two {runs[0]['scale']} runs"


def _column(ratio: Mapping[str, Any]) -> str:
    return next((title for title, name in COLUMNS.items() if (ratio["against"] or "").startswith(name)), "otherwise")


def _cell(ratios: Sequence[Mapping[str, Any] | None]) -> str:
    taken = [ratio for ratio in ratios if ratio is not None and ratio["median"] is not None]
    if not taken:
        return "left out"
    bound = f"{'at most' if taken[0]['better'] == 'lower' else 'at least'} {short(taken[0]['target'])}"
    missed = sum(ratio["verdict"] == "missed" for ratio in taken)
    mark = {0: "", len(taken): " **missed**"}.get(missed, " **missed once**")
    return f"{' and '.join(short(ratio['median']) for ratio in taken)}; {bound}{mark}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
