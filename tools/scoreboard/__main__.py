"""Check servers and clients of many projects, and write the scoreboard: ``python tools/scoreboard [--only KEY,...] [--show]``.

The scores go into ``docs/explanation/scoreboard.json``, and from there into the page and the README. A contestant that cannot be
checked on this machine keeps its score.
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

from twopipes._rules.table import RULES, rules_for
from twopipes._tools.check.probe import all_probes
from twopipes._tools.check.rule_pages import judges_of
from twopipes._tools.check.scenario import all_scenarios

# Seconds: limits for one check, and for its end after SIGINT.
BOUND = {"server": 900.0, "client": 1200.0}
ENDING = 30.0
# Seconds for a response, long enough for a busy machine.
TIMEOUT = {"server": "20", "client": "30"}


class NotChecked(Exception):
    """A check without a report."""


def main(given: Sequence[str] | None = None) -> int:
    """Run the checks, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", metavar="KEY,...", default="", help=f"check only these: {', '.join(each.key for each in CONTESTANTS)}"
    )
    parser.add_argument(
        "--show", action="store_true", help="check nothing; write the pages and show the table from the stored scores"
    )
    parser.add_argument("--rules", metavar="ID,...", default="", help="try only these rules again, and keep the other scores")
    parser.add_argument("--raw", metavar="FOLDER", type=Path, help="store the whole report of each check there, as JSON")
    options = parser.parse_args(given)
    wanted = {key for key in options.only.split(",") if key}
    if unknown := wanted - {each.key for each in CONTESTANTS}:
        parser.error(f"unknown contestants: {', '.join(sorted(unknown))}")
    if not options.show:
        measure([each for each in CONTESTANTS if not wanted or each.key in wanted], rules=options.rules, raw=options.raw)
    scores = kept()
    scores["counts"] = counts()
    keep(scores)
    page.write(scores)
    print(page.printed(scores))
    return 0


def kept() -> dict[str, Any]:
    """Return the stored scores."""
    if not page.SCORES.exists():
        return {"date": "", "counts": {}, "contestants": {}}
    scores: dict[str, Any] = json.loads(page.SCORES.read_text(encoding="utf-8"))
    return scores


def keep(scores: dict[str, Any]) -> None:
    """Store the scores."""
    page.SCORES.write_text(json.dumps(scores, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def measure(contestants: Sequence[Contestant], *, rules: str, raw: Path | None) -> None:
    """Check one contestant after the other, and store each score at once."""
    for contestant in contestants:
        if reason := contestant.missing():
            print(f"{contestant.key}: left out: {reason}", file=sys.stderr)
            continue
        began = time.monotonic()
        try:
            with tempfile.TemporaryDirectory(prefix="twopipes-scoreboard-") as folder:
                report = json.loads(checked(contestant, Path(folder), rules).replace(str(PROJECT), ".").replace(folder, "/tmp"))
        except NotChecked as error:
            print(f"{contestant.key}: left out: {error}", file=sys.stderr)
            continue
        print(f"{contestant.key}: {time.monotonic() - began:.0f} s, {report['counts']}", file=sys.stderr)
        if raw is not None and not rules:
            raw.mkdir(parents=True, exist_ok=True)
            (raw / f"{contestant.key}.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        add(contestant, report)


def add(contestant: Contestant, report: dict[str, Any]) -> None:
    """Store the score of one contestant; after a check of some rules, merge it with the old score."""
    scores = kept()
    found = dict(scores["contestants"])
    fresh = score(contestant, report)
    found[contestant.key] = (
        merged(found[contestant.key], fresh, {rule["id"] for rule in report["rules"]}) if contestant.key in found else fresh
    )
    scores["date"] = dt.datetime.now(tz=dt.UTC).date().isoformat()
    scores["contestants"] = {each.key: found[each.key] for each in CONTESTANTS if each.key in found}
    keep(scores)


def merged(old: dict[str, Any], fresh: dict[str, Any], tried: set[str]) -> dict[str, Any]:
    """Return the new score, with the old results of rules that were not tried again, in the order of the table."""
    order = list(RULES)
    report = {**fresh}
    for name in ("passed", "skipped"):
        rules = [*fresh[name].split(), *(each for each in old[name].split() if each not in tried and each in order)]
        report[name] = " ".join(sorted(rules, key=order.index))
    failures = [*fresh["failures"], *(each for each in old["failures"] if each["rule"] not in tried and each["rule"] in order)]
    report["failures"] = sorted(failures, key=lambda each: order.index(each["rule"]))
    return report


def checked(contestant: Contestant, folder: Path, rules: str = "") -> str:
    """Return the JSON report of ``twopipes check`` about one contestant.

    Raises:
        NotChecked: There was no report, or the check took too long.
    """
    way = ["--client"] if contestant.side == "client" else []
    words = [sys.executable, "-m", "twopipes", "check", *way, "--format", "json", "--timeout", TIMEOUT[contestant.side]]
    words += [f"--only={rules}"] if rules else []
    words += [*contestant.options(folder), "--", *contestant.command(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd=PROJECT, text=True) as checking:
        try:
            out, _ = checking.communicate(timeout=BOUND[contestant.side])
        except subprocess.TimeoutExpired:
            # Like Ctrl-C: the check then ends the processes that it has started.
            checking.send_signal(signal.SIGINT)
            try:
                checking.communicate(timeout=ENDING)
            except subprocess.TimeoutExpired:
                checking.kill()
            raise NotChecked(f"the check of {contestant.key} took longer than {BOUND[contestant.side]:.0f} s") from None
    if checking.returncode not in {0, 1} or not out:
        raise NotChecked(f"the check of {contestant.key} exited with {checking.returncode}")
    return out


def score(contestant: Contestant, report: dict[str, Any]) -> dict[str, Any]:
    """Return the score in a report: the rules that passed, that were skipped, and details of those that were broken."""
    by_result: dict[str, list[dict[str, Any]]] = {}
    for rule in report["rules"]:
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
        for rule in report["rules"]
        if rule["result"] in {"error", "warning", "note"}
    ]
    return {
        "name": contestant.name,
        "side": contestant.side,
        "package": contestant.package,
        "version": contestant.version,
        "revisions": report["revisions"],
        "seconds": round(report["seconds"]),
        "failures": failures,
        "passed": " ".join(rule["id"] for rule in by_result.get("passed", [])),
        "skipped": " ".join(rule["id"] for rule in by_result.get("skipped", [])),
    }


def _broken(rule: dict[str, Any]) -> list[dict[str, Any]]:
    return [verdict for verdict in rule["verdicts"] if verdict["outcome"] == "failed"]


def counts() -> dict[str, int]:
    """Return the numbers of rules, probes, scenarios and mutants."""
    sys.path.insert(0, str(PROJECT / "tests"))
    from check.mutation import all_mutants  # noqa: PLC0415 - needs the line above

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
