"""The results of a run as SVG plots. matplotlib is in the dependency group ``bench`` and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Figures = Mapping[str, Mapping[str, Any]]
# Of those who speak both eras, one bar or line is enough.
SHOWN = ("twopipes", "official", "fastmcp", "typescript", "by hand, asyncio", "by hand, blocking", "raw pipe", "twopipes blocking")
COLOURS = dict(zip(SHOWN, ("#d1495b", "#30638e", "#5b8fb9", "#edae49", "#66a182", "#9bc1a6", "#8d96a3", "#e08e98"), strict=True))
# Title, metric, factor, unit. Bars begin at zero, so that their lengths can be compared.
BARS = {
    "cold-start": ("Launch to tools listed", "cold start/tools listed", 1e3, "ms"),
    "memory": ("Memory at rest", "memory/idle", 1e-6, "MB"),
    "client": ("Clients: calls per second, 64 in flight", "client/64 in flight/calls per second", 1.0, "calls/s"),
}
# Factors of a thousand lie between these: points on a logarithmic scale, because a bar has no honest length there.
POINTS = {
    "round-trip": ("Round trip of a small call, p50", "round trip/async/p50", 1e6, "us"),
    "cpu-per-call": ("Server CPU per call, 64 in flight", "pipelined/async/64/CPU per call", 1e6, "us"),
}
DEPTHS = (1, 8, 64, 512)
SIZES = {"1 KiB": 1 / 1024, "64 KiB": 1 / 16, "1 MiB": 1.0, "16 MiB": 16.0, "64 MiB": 64.0}


def draw(figures: Figures, folder: Path) -> list[Path]:
    """Write one file for each plot that has values."""
    import matplotlib as mpl  # noqa: PLC0415 - a bench-only dependency: the tables must come without it

    mpl.use("svg")
    # The same values give the same file.
    mpl.rcParams.update({"svg.hashsalt": "twopipes", "svg.fonttype": "none", "font.size": 9.0})
    folder.mkdir(parents=True, exist_ok=True)
    written = [
        _drawn(folder / f"{name}.svg", lambda axes, plot=plot, points=name in POINTS: _ranking(axes, figures, plot, points=points))
        for name, plot in (BARS | POINTS).items()
        if plot[1] in figures
    ]
    if any(name.startswith("pipelined/async/") for name in figures):
        written.append(_drawn(folder / "pipelined.svg", lambda axes: _depths(axes, figures)))
    if any(name.startswith("payload/both/") for name in figures):
        written.append(_drawn(folder / "payload.svg", lambda axes: _sizes(axes, figures)))
    return written


def _drawn(path: Path, paint: Callable[[Any], None]) -> Path:
    from matplotlib import pyplot as plt  # noqa: PLC0415 - see above

    figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
    paint(axes)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return path


def _ranking(axes: Any, figures: Figures, plot: tuple[str, str, float, str], *, points: bool) -> None:
    title, metric, factor, unit = plot
    taken = figures[metric]["contenders"]
    names = [name for name in SHOWN if name in taken][::-1]
    values = [taken[name]["median"] * factor for name in names]
    spreads = [
        [(taken[name]["median"] - taken[name]["low"]) * factor for name in names],
        [(taken[name]["high"] - taken[name]["median"]) * factor for name in names],
    ]
    colours = [COLOURS[name] for name in names]
    if points:
        axes.set_xscale("log")
        axes.errorbar(values, names, xerr=spreads, fmt="none", ecolor="black", linewidth=0.8)
        axes.scatter(values, names, color=colours, zorder=3)
    else:
        axes.barh(names, values, xerr=spreads, color=colours, error_kw={"linewidth": 0.8})
    for name, value, above in zip(names, values, spreads[1], strict=True):
        label = f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
        axes.annotate(label, (value + above, name), xytext=(5, 0), textcoords="offset points", va="center")
    axes.margins(x=0.12)
    axes.set_xlabel(f"{unit}, {figures[metric]['better']} is better{', logarithmic' if points else ''}")
    axes.set_title(title)
    axes.spines[["top", "right"]].set_visible(False)


def _lines(axes: Any, lines: Mapping[str, tuple[list[float], list[float]]], *, title: str, across: str, up: str) -> None:
    for name, (places, values) in lines.items():
        axes.plot(places, values, marker="o", markersize=3, label=name, color=COLOURS[name])
    axes.set(xscale="log", yscale="log", xlabel=across, ylabel=up, title=title)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))


def _depths(axes: Any, figures: Figures) -> None:
    metrics = {float(depth): f"pipelined/async/{depth}/calls per second" for depth in DEPTHS}
    _lines(axes, _series(figures, metrics), title="Calls per second by calls in flight", across="in flight", up="calls/s")


def _sizes(axes: Any, figures: Figures) -> None:
    metrics = {size: f"payload/both/{name}/seconds" for name, size in SIZES.items()}
    _lines(axes, _series(figures, metrics), title="A text there, and one back", across="MiB", up="seconds")


def _series(figures: Figures, metrics: Mapping[float, str]) -> dict[str, tuple[list[float], list[float]]]:
    lines: dict[str, tuple[list[float], list[float]]] = {}
    for place, metric in metrics.items():
        for name, taken in figures.get(metric, {"contenders": {}})["contenders"].items():
            if name in SHOWN:
                places, values = lines.setdefault(name, ([], []))
                places.append(place)
                values.append(taken["median"])
    return lines
