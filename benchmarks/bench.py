"""Compare twopipes with other implementations and with the limits, in one run on one machine: ``make bench``.

Everybody takes turns, round after round. Printed are a table of every figure and the table of targets, as ratios; written are a
JSON file with every single value and, if asked for, SVG plots. ``--check FILE`` compares the ratios with those of an earlier run
and fails on a loss of more than 30 %.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import environment  # noqa: E402 - it is in the folder of this file
from checking import compare  # noqa: E402
from figures import client, cold_start, concurrency, lines, many, memory, payload, pipelined, round_trip, tap  # noqa: E402
from measuring import FULL, QUICK, Bench, Scale, Sheet  # noqa: E402
from table import figures_tables, targets_table  # noqa: E402
from targets import for_file, judged  # noqa: E402

FIGURES: dict[str, Callable[[Bench], None]] = {
    "cold-start": cold_start.run,
    "round-trip": round_trip.run,
    "pipelined": pipelined.run,
    "payload": payload.run,
    "memory": memory.run,
    "client": client.run,
    "many": many.run,
    "concurrency": concurrency.run,
    "lines": lines.run,
    "tap": tap.run,
}
# How often what looks lost is measured again before it is believed.
TIMES_AGAIN = 2
LATEST = HERE / "results" / "latest.json"


def main(given: Sequence[str] | None = None) -> int:
    """Measure, print and write the results, and return the exit code."""
    options = _options(given)
    scale = scaled(QUICK if options.quick else FULL, options.repeat)
    # Read first: a file that is not there shall not be noticed when everything has been measured.
    committed = json.loads(options.check.read_text()) if options.check else None
    results = measure(scale, options.figures)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\nwritten: {options.json}")
    if options.plots is not None:
        import plots  # noqa: PLC0415 - only who asks for plots needs what draws them

        print("\n".join(f"written: {path}" for path in plots.draw(results["figures"], options.plots)))
    return 0 if committed is None else _checked(committed, results, scale)


def measure(scale: Scale, figures: Sequence[str]) -> dict[str, Any]:
    """Take the figures, print the tables, and return the content of the results file."""
    described = environment.describe()
    sheet = Sheet()
    seconds: dict[str, float] = {}
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="twopipes-bench-") as noise:
        bench = Bench(scale, sheet, Path(noise))
        for name in figures:
            bench.say(name)
            began = time.monotonic()
            FIGURES[name](bench)
            seconds[name] = round(time.monotonic() - began, 1)
    took = time.monotonic() - started
    ratios = judged(sheet)
    print(f"# Benchmark of twopipes, {scale.name} run of {took:.0f} s\n\n{environment.as_text(described)}\n")
    print(figures_tables(sheet.summary()))
    print(f"\n## Targets\n\n{targets_table(ratios)}")
    if scale.without:
        sheet.notes.append(
            f"Left out of a {scale.name} run, the stateless era not at the cold start: {', '.join(sorted(scale.without))}."
        )
    for note in sheet.notes:
        print(f"\n{note}")
    for failure in sheet.failures:
        print(f"\nFailed: {failure['contender']}, {failure['what']}, round {failure['round'] + 1}: {failure['why']}")
    return {
        "scale": scale.name,
        "seconds": round(took),
        "seconds by figure": seconds,
        "environment": described,
        "ratios": for_file(ratios),
        "figures": sheet.summary(),
        "failures": sheet.failures,
        "notes": sheet.notes,
    }


def scaled(scale: Scale, repeat: int | None) -> Scale:
    """Return the scale with another number of rounds."""
    return scale if repeat is None else replace(scale, repeat=repeat, repeat_long=repeat, cold_starts=repeat)


def _checked(committed: dict[str, Any], results: dict[str, Any], scale: Scale) -> int:
    """Print the losses. The machine may be slow for a second, so a loss counts only if it appears in every measurement."""
    comparison = compare(committed["ratios"], results["ratios"])
    if comparison.left_out:
        print(f"\nnot measured this time, and so not compared: {', '.join(comparison.left_out)}")
    losses = comparison.losses
    for _ in range(TIMES_AGAIN):
        if not losses:
            break
        figures = sorted({figure_of(key) for key in losses}, key=list(FIGURES).index)
        print(f"\n{len(losses)} ratios look lost; measured again: {', '.join(figures)}\n")
        again = compare(committed["ratios"], measure(scale, figures)["ratios"]).losses
        losses = {key: words for key, words in again.items() if key in losses}
    for loss in losses.values():
        print(f"lost: {loss}", file=sys.stderr)
    print(f"\n{len(losses)} ratios are more than 30 % worse than the committed ones.")
    return 1 if losses else 0


def figure_of(key: str) -> str:
    """Return the figure of a ratio: the first part of its name after the contender."""
    name = re.sub(r"^[^/]*: ", "", key).split("/")[0].replace(" ", "-")
    return {"line": "lines", "import": "cold-start"}.get(name, name)


def _options(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.py", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds, fewer depths and sizes: under three minutes")
    parser.add_argument("--figures", type=_figures, default=list(FIGURES), metavar="A,B", help=f"of {', '.join(FIGURES)}")
    parser.add_argument("--repeat", type=_count, metavar="N", help="rounds of each figure")
    parser.add_argument("--json", type=Path, default=LATEST, metavar="FILE", help="where every value goes")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="where SVG plots go")
    parser.add_argument("--check", type=Path, metavar="FILE", help="fail on a loss of more than 30 %% against these results")
    return parser.parse_args(given)


def _figures(given: str) -> list[str]:
    names = given.split(",")
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown figure {', '.join(unknown)}; known figures: {', '.join(FIGURES)}")
    return names


def _count(given: str) -> int:
    if not given.isdecimal() or int(given) < 1:
        raise argparse.ArgumentTypeError(f"{given} is not a number of rounds; try 1")
    return int(given)


if __name__ == "__main__":
    sys.exit(main())
