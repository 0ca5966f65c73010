"""Write the scores into the tables of the page and the line of the README, between their marks."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from twopipes._rules.table import RULES

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "docs" / "explanation" / "scoreboard.md"
SCORES = PROJECT / "docs" / "explanation" / "scoreboard.json"
RULES_PAGE = PROJECT / "docs" / "reference" / "rules.md"
README = PROJECT / "README.md"
NOTES = Path(__file__).parent / "notes.toml"
BEGIN, END = "<!-- measured: {} -->", "<!-- end of what was measured -->"

Score = Mapping[str, Any]
HEAD = ("", "version", "speaks", "passed", "failed MUST", "failed SHOULD", "against our reading", "not tried")


def read_notes(path: Path = NOTES) -> dict[tuple[str, str], str]:
    """Return what was observed for each failure, by rule and key of the contestant."""
    found = {}
    for rule, seen in tomllib.loads(path.read_text(encoding="utf-8")).items():
        for keys, what in seen.items():
            for key in keys.split():
                found[rule, key] = what
    return found


def page_blocks(scores: Mapping[str, Any], notes: Mapping[tuple[str, str], str]) -> dict[str, str]:
    """Return the blocks of the page by name."""
    return {
        "run": counted(scores),
        "servers": table(scores, "server"),
        "clients": table(scores, "client"),
        "failures": failures(scores, notes),
    }


def readme_block(scores: Mapping[str, Any]) -> str:
    """Return the line of the README."""
    own = [score for key, score in scores["contestants"].items() if key in {"twopipes", "twopipes-client"}]
    failed = {score["side"]: len(score["failures"]) for score in own}
    return f"{counted(scores)} twopipes fails {failed['server']} of them as a server and {failed['client']} as a client."


def counted(scores: Mapping[str, Any]) -> str:
    """Return a sentence with the numbers of rules, probes and mutants, and the date."""
    count = scores["counts"]
    return (
        f"{count['rules']} rules. {count['judged_server']} of them are checked on servers, with {count['probes']} probes; "
        f"{count['judged_client']} on clients, with {count['scenarios']} scenarios; both also by reading the conversation. "
        f"{count['mutants']} mutants show that the check can fail. Measured on {scores['date']}."
    )


def table(scores: Mapping[str, Any], side: str) -> str:
    """Return a table with a row for each contestant of one side."""
    rows = [
        [_name(score), score["version"], _span(score["revisions"]), *_numbers(score)]
        for score in scores["contestants"].values()
        if score["side"] == side
    ]
    return grid(HEAD, rows)


def failures(scores: Mapping[str, Any], notes: Mapping[tuple[str, str], str]) -> str:
    """Return for each contestant the rules that it breaks, and what was observed."""
    parts = []
    for key, score in scores["contestants"].items():
        head = f"### {score['name']} {score['version']}, {score['side']}"
        rows = [
            [
                f"`{failure['rule']}`",
                "note" if failure["severity"] == "note" else failure["level"] + (", our reading" if _is_ours(failure) else ""),
                RULES[failure["rule"]].title,
                notes.get((failure["rule"], key), "**not reviewed yet**: " + _short(failure["why"])),
            ]
            for failure in score["failures"]
        ]
        parts.append(f"{head}\n\n" + (grid(("rule", "level", "requirement", "observed"), rows) if rows else "None."))
    return "\n\n".join(parts)


def printed(scores: Mapping[str, Any]) -> str:
    """Return the scores as text for a terminal."""
    lines = [counted(scores), ""]
    for side in ("server", "client"):
        rows = [[*HEAD[:3], *HEAD[3:]]] + [
            [score["name"].replace("`", ""), score["version"], _span(score["revisions"]), *_numbers(score, strong=False)]
            for score in scores["contestants"].values()
            if score["side"] == side
        ]
        rows[0][0] = f"{side}s"
        widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
        lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        lines.append("")
    for key, score in scores["contestants"].items():
        for word, broken in _broken(score).items():
            if broken:
                lines.append(f"{key}: {word} {' '.join(broken)}")
    return "\n".join(lines)


def grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def filled(text: str, blocks: Mapping[str, str]) -> str:
    """Return the text with each block between its marks.

    Raises:
        ValueError: A mark is missing.
    """
    for name, block in blocks.items():
        begin = BEGIN.format(name)
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(END)
        if not found or not closed:
            raise ValueError(f"the marks {begin} ... {END} are missing")
        text = f"{before}{begin}\n{block}\n{END}{after}"
    return text


def write(scores: Mapping[str, Any]) -> None:
    """Write the tables of the page and the line of the README."""
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), page_blocks(scores, read_notes())), encoding="utf-8")
    text = README.read_text(encoding="utf-8")
    README.write_text(filled(text, {"scoreboard": readme_block(scores)}), encoding="utf-8")


def _name(score: Score) -> str:
    return str(score["name"])


def _numbers(score: Score, *, strong: bool = True) -> list[str]:
    found = _broken(score)
    # A breach of our own reading is listed but not emphasized: the text is silent or contradicts itself there.
    failed = [f"**{len(found[word])}**" if found[word] and strong else str(len(found[word])) for word in ("MUST", "SHOULD")]
    return [str(len(score["passed"].split())), *failed, str(len(found["our reading"])), str(len(score["skipped"].split()))]


def _broken(score: Score) -> dict[str, list[str]]:
    """Return the broken rules, by severity."""
    found: dict[str, list[str]] = {"MUST": [], "SHOULD": [], "our reading": [], "note": []}
    words = {"error": "MUST", "warning": "SHOULD", "note": "note"}
    for failure in score["failures"]:
        found["our reading" if _is_ours(failure) else words[failure["severity"]]].append(failure["rule"])
    return found


def _is_ours(failure: Mapping[str, Any]) -> bool:
    return failure["basis"] == "inference" and failure["severity"] != "note"


def _span(revisions: Sequence[str]) -> str:
    if len(revisions) > 2:
        return f"{revisions[0]} to {revisions[-1]}"
    return ", ".join(revisions) or "nothing"


def _short(why: Sequence[str]) -> str:
    return "; ".join(why)[:300]
