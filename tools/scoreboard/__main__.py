"""Checks servers and clients of many makers, and writes the table: ``python tools/scoreboard [--only KEY,...] [--show]``.

The scores go into ``docs/explanation/scoreboard.json``, and from there into the page and the README. Who cannot be checked here
keeps the score that it had.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import page
from contestants import CONTESTANTS, PROJECT, Contestant

# Seconds. The longest that one check may take, and that it may take to end when it is told to: a net, not a measure.
BOUND = {"server": 900.0, "client": 1200.0}
ENDING = 30.0
# Seconds for an answer. Nobody is accused because this machine is busy.
PATIENCE = {"server": "20", "client": "30"}


class NotChecked(Exception):
    """A check that told nothing."""


def main(given: Sequence[str] | None = None) -> int:
    """Runs what was asked for; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="KEY,...", default="", help=f"these alone: {', '.join(each.key for each in CONTESTANTS)}")
    parser.add_argument(
        "--show", action="store_true", help="run nothing; write the pages and show the table from the scores that are there"
    )
    parser.add_argument("--rules", metavar="ID,...", default="", help="try these again, and leave the scores of all others alone")
    parser.add_argument("--raw", metavar="FOLDER", type=Path, help="keep the whole report of each check there, as JSON")
    options = parser.parse_args(given)
    wanted = {key for key in options.only.split(",") if key}
    if unknown := wanted - {each.key for each in CONTESTANTS}:
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    if not options.show:
        measure([each for each in CONTESTANTS if not wanted or each.key in wanted], rules=options.rules, raw=options.raw)
    scores = kept()
    scores["counts"] = counts()
    keep(scores)
    page.write(scores)
    print(page.printed(scores))
    return 0


def kept() -> dict[str, Any]:
    """The scores that there are."""
    if not page.SCORES.exists():
        return {"date": "", "counts": {}, "contestants": {}}
    scores: dict[str, Any] = json.loads(page.SCORES.read_text(encoding="utf-8"))
    return scores


def keep(scores: dict[str, Any]) -> None:
    """Writes them down."""
    page.SCORES.write_text(json.dumps(scores, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def measure(contestants: Sequence[Contestant], *, rules: str, raw: Path | None) -> None:
    """Checks one after the other, and puts the score of each beside those of the others as soon as it is there."""
    for contestant in contestants:
        if reason := contestant.missing():
            print(f"{contestant.key}: left out: {reason}", file=sys.stderr)
            continue
        began = time.monotonic()
        try:
            with tempfile.TemporaryDirectory(prefix="twopipes-scoreboard-") as folder:
                told = json.loads(checked(contestant, Path(folder), rules).replace(str(PROJECT), ".").replace(folder, "/tmp"))
        except NotChecked as error:
            print(f"{contestant.key}: left out: {error}", file=sys.stderr)
            continue
        print(f"{contestant.key}: {time.monotonic() - began:.0f} s, {told['counts']}", file=sys.stderr)
        if raw is not None and not rules:
            raw.mkdir(parents=True, exist_ok=True)
            (raw / f"{contestant.key}.json").write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        add(contestant, told)


def add(contestant: Contestant, told: dict[str, Any]) -> None:
    """Puts the score of one contestant among those of the others; of some rules, among those of all others."""
    scores = kept()
    found = dict(scores["contestants"])
    fresh = score(contestant, told)
    found[contestant.key] = (
        merged(found[contestant.key], fresh, {rule["id"] for rule in told["rules"]}) if contestant.key in found else fresh
    )
    scores["date"] = dt.datetime.now(tz=dt.UTC).date().isoformat()
    scores["contestants"] = {each.key: found[each.key] for each in CONTESTANTS if each.key in found}
    keep(scores)


def merged(old: dict[str, Any], fresh: dict[str, Any], tried: set[str]) -> dict[str, Any]:
    """The fresh score, with the old one of the rules that were not tried again; in the order of the table."""
    from twopipes._rules.table import RULES  # noqa: PLC0415 - the whole table, for this alone

    order = list(RULES)
    told = {**fresh}
    for name in ("passed", "skipped"):
        rules = [*fresh[name].split(), *(each for each in old[name].split() if each not in tried and each in order)]
        told[name] = " ".join(sorted(rules, key=order.index))
    failures = [*fresh["failures"], *(each for each in old["failures"] if each["rule"] not in tried and each["rule"] in order)]
    told["failures"] = sorted(failures, key=lambda each: order.index(each["rule"]))
    return told


def checked(contestant: Contestant, folder: Path, rules: str = "") -> str:
    """What the command ``twopipes check`` tells of one contestant, as JSON.

    Raises:
        NotChecked: It told nothing, or took too long.
    """
    way = ["--client"] if contestant.side == "client" else []
    words = [sys.executable, "-m", "twopipes", "check", *way, "--format", "json", "--timeout", PATIENCE[contestant.side]]
    words += [f"--only={rules}"] if rules else []
    words += [*contestant.options(folder), "--", *contestant.command(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd=PROJECT, text=True) as checking:
        try:
            out, _ = checking.communicate(timeout=BOUND[contestant.side])
        except subprocess.TimeoutExpired:
            # As Ctrl-C: it ends whatever it has started before it ends.
            checking.send_signal(signal.SIGINT)
            try:
                checking.communicate(timeout=ENDING)
            except subprocess.TimeoutExpired:
                checking.kill()
            raise NotChecked(f"the check of {contestant.key} took longer than {BOUND[contestant.side]:.0f} s") from None
    if checking.returncode not in {0, 1} or not out:
        raise NotChecked(f"the check of {contestant.key} ended with {checking.returncode}")
    return out


def score(contestant: Contestant, told: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a report: which rules were kept and which not tried, and all about those that were broken."""
    by_result: dict[str, list[dict[str, Any]]] = {}
    for rule in told["rules"]:
        by_result.setdefault(rule["result"], []).append(rule)
    failures = [
        {
            "rule": rule["id"],
            "level": rule["level"],
            "basis": rule["basis"],
            "severity": rule["result"],
            "title": rule["title"],
            "revisions": sorted({each["revision"] for each in _broken(rule) if each["revision"]}),
            "why": list(dict.fromkeys(each["why"][:300] for each in _broken(rule)))[:3],
        }
        for rule in told["rules"]
        if rule["result"] in {"error", "warning", "note"}
    ]
    return {
        "name": contestant.name,
        "side": contestant.side,
        "package": contestant.package,
        "version": contestant.version,
        "revisions": told["revisions"],
        "seconds": round(told["seconds"]),
        "failures": failures,
        "passed": " ".join(rule["id"] for rule in by_result.get("passed", [])),
        "skipped": " ".join(rule["id"] for rule in by_result.get("skipped", [])),
    }


def _broken(rule: dict[str, Any]) -> list[dict[str, Any]]:
    return [verdict for verdict in rule["verdicts"] if verdict["outcome"] == "failed"]


def counts() -> dict[str, int]:
    """How many rules, probes, scenarios and mutants there are."""
    sys.path.insert(0, str(PROJECT / "tests"))
    from check.mutating import all_mutants  # noqa: PLC0415 - the tests, from where they are
    from twopipes._rules.table import RULES, rules_for  # noqa: PLC0415 - likewise
    from twopipes._tools.check.probe import all_probes  # noqa: PLC0415 - likewise
    from twopipes._tools.check.rule_pages import judges_of  # noqa: PLC0415 - the whole table, for this alone
    from twopipes._tools.check.scenario import all_scenarios  # noqa: PLC0415 - likewise

    return {
        "rules": len(RULES),
        "judged_server": sum(bool(judges_of(rule, "server")) for rule in rules_for("server")),
        "judged_client": sum(bool(judges_of(rule, "client")) for rule in rules_for("client")),
        "probes": len(all_probes()),
        "scenarios": len(all_scenarios()),
        "mutants": len(all_mutants("server")) + len(all_mutants("client")),
    }


if __name__ == "__main__":
    sys.exit(main())
