"""Run the tests with a Windows Python under Wine: ``python tools/windows [--all] [PATH ...]``.

The tests run in groups, two at a time. A group that hangs or crashes is run again file by file, so that the rest of it counts. A
few failed tests are run again, once, and the output lists those that pass then. What Wine cannot do is skipped by the tests
themselves, each with its reason. Where Wine cannot be installed, nothing is run, and the last line says so.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from wine import PYTHON, ROOT, NotAvailableError, Wine

# `make windows-all`.
EVERYTHING = ("tests/unit", "tests/properties", "tests/windows", "tests/processes", "tests/*.py")
# `make windows`: without the tests of the project's pages and tools, and without those that start several programs for each step.
USUAL = (*EVERYTHING[:-1], "tests/test_conversations.py", "tests/test_transcripts.py")
SLOW_NAMES = "bridge bridge_http cli_http doctor gateway_questions hub hub_kills install keep mock replay"
SLOW = {f"tests/processes/test_{name}.py" for name in SLOW_NAMES.split()}
# Seconds for a test, a file and a group of files; under Wine everything takes several times as long.
TEST_LIMIT = 120
FILE_LIMIT = 600
GROUP_LIMIT = 1500
# Files of one group: starting Python and pytest takes seconds, and a hang costs the whole group.
GROUP_SIZE = 10
# Seconds for the last output of a run that has ended.
OUTPUT_TIMEOUT = 5
MOST_REASONS = 60
# Failed tests of a group that are run again, once: Wine cannot start one process in many thousands (WinError 1359), and seems to
# lose an event as rarely. More of them are a defect.
MOST_REPEATED = 5
RESULTS = ("passed", "failed", "skipped")


@dataclass
class Outcome:
    """The counts of some test files."""

    counts: Counter[str] = field(default_factory=Counter)
    of_folder: Counter[tuple[str, str]] = field(default_factory=Counter)  # by folder and result
    reasons: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)  # the ids of failed tests
    passed_later: list[str] = field(default_factory=list)  # failures of tests that passed when they were run again

    def add(self, other: Outcome) -> None:
        """Add the counts of other files."""
        self.counts += other.counts
        self.of_folder += other.of_folder
        self.reasons += other.reasons
        self.failures += other.failures
        self.failed += other.failed
        self.passed_later += other.passed_later

    def repeated_by(self, again: Outcome) -> None:
        """Replace the results of the failed tests by those of a second run."""
        if not again.failures:
            self.passed_later, self.failures, self.failed = self.failures, [], []
            for folder, result in [key for key in self.of_folder if key[1] == "failed"]:
                self.of_folder[folder, "passed"] += self.of_folder.pop((folder, result))
            self.counts["passed"] += self.counts.pop("failed")


class Runner:
    """Runs groups of test files under Wine, and reads their results."""

    def __init__(self, wine: Wine) -> None:
        self._wine = wine
        self._results = wine.folder / "results"
        shutil.rmtree(self._results, ignore_errors=True)
        self._results.mkdir()
        self._numbers = itertools.count(1)

    def run(self, targets: tuple[str, ...]) -> Outcome:
        """Run a group; if it does not come to its end, its files one by one."""
        found = self._run(targets, GROUP_LIMIT)
        files = [each for target in targets for each in files_of(target)]
        if found is None and len(files) > 1:
            total = Outcome()
            for file in files:
                total.add(self.run((file,)))
            return total
        if found is not None and 0 < len(found.failed) <= MOST_REPEATED:
            again = self._run(tuple(found.failed), FILE_LIMIT) or crashed(found.failed)
            found.repeated_by(again)
        return found or crashed(targets)

    def _run(self, targets: tuple[str, ...], limit: float) -> Outcome | None:
        number = next(self._numbers)
        report, log = (self._results / f"{number}.{ending}" for ending in ("xml", "log"))
        report.unlink(missing_ok=True)
        options = (f"--timeout={TEST_LIMIT}", "--timeout-method=thread", f"--junit-xml={report.relative_to(ROOT)}", "--tb=short")
        command = ["wine", str(self._wine.python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, *targets]
        begun = time.monotonic()
        limit = limit if len(targets) > 1 or not targets[0].endswith(".py") else FILE_LIMIT
        if not self._run_to_end(command, log, limit):
            print(f"{' '.join(targets)}: no end after {limit} s; see {log.relative_to(ROOT)}", flush=True)
            return None
        if not report.exists():
            print(f"{' '.join(targets)}: no result; see {log.relative_to(ROOT)}", flush=True)
            return None
        found = read_report(report)
        said = ", ".join(f"{count} {word}" for word, count in found.counts.items())
        print(f"{' '.join(targets)}: {said or 'no tests'} ({time.monotonic() - begun:.0f} s)", flush=True)
        return found

    def _run_to_end(self, command: list[str], log: Path, limit: float) -> bool:
        """Run a program with its output in a file. Return False if it did not end in time."""
        # Wine's standard streams must be pipes, so a thread copies. A process that is left behind holds the pipe, and is not
        # waited for.
        environment = self._wine.environment()
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        process = subprocess.Popen(command, cwd=ROOT, env=environment, **streams)
        copying = threading.Thread(target=copy, args=(process.stdout, log), daemon=True)
        copying.start()
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return False
        finally:
            copying.join(OUTPUT_TIMEOUT)
        return True


def copy(source: IO[bytes], target: Path) -> None:
    """Write a stream to a file as it comes."""
    with target.open("wb", buffering=0) as file:
        while data := os.read(source.fileno(), 65536):
            file.write(data)


def crashed(targets: Iterable[str]) -> Outcome:
    """Return the outcome of tests that did not come to their end."""
    return Outcome(Counter(failed=1), failures=[f"{' '.join(targets)}: it crashed or hung"])


def read_report(path: Path) -> Outcome:
    """Read the JUnit file of pytest."""
    found = Outcome()
    for case in ET.parse(path).getroot().iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}".removeprefix("::")
        result = "passed"
        if (skipped := case.find("skipped")) is not None:
            result = "skipped"
            found.reasons[reason_of(skipped)] += 1
        elif (failed := case.find("failure")) is not None or (failed := case.find("error")) is not None:
            result = "failed"
            found.failed.append(f"{(case.get('classname') or '').replace('.', '/')}.py::{case.get('name')}")
            found.failures.append(f"{name}: {(failed.get('message') or '').splitlines()[0][:200]}")
        found.counts[result] += 1
        found.of_folder[folder_of(case), result] += 1
    return found


def folder_of(case: ET.Element) -> str:
    """Return the folder of a test below ``tests``. A file that was skipped as a whole has no class, but its name."""
    parts = (case.get("classname") or case.get("name") or "").split(".")
    return f"tests/{parts[1]}" if len(parts) > 1 and (ROOT / "tests" / parts[1]).is_dir() else "tests"


def reason_of(skipped: ET.Element) -> str:
    """Return why a test was skipped. For a whole file it is in the text, with the place of the call."""
    message = skipped.get("message") or ""
    if message != "collection skipped":
        return message
    return (skipped.text or "").partition("Skipped: ")[2].rstrip("'\")")


def files_of(target: str) -> list[str]:
    """Return the test files of a path or a pattern."""
    place = ROOT / target
    files = sorted(place.rglob("test_*.py")) if place.is_dir() else sorted(ROOT.glob(target))
    return [str(each.relative_to(ROOT)) for each in files if each.name.startswith("test_")]


def groups_of(targets: Sequence[str], left_out: Container[str] = ()) -> list[tuple[str, ...]]:
    """Return the files of some targets in groups of one folder."""
    folders: dict[str, list[str]] = {}
    for target in targets:
        for file in files_of(target):
            if file not in left_out:
                folders.setdefault(os.path.dirname(file), []).append(file)
    cut = [files[start : start + GROUP_SIZE] for files in folders.values() for start in range(0, len(files), GROUP_SIZE)]
    return [tuple(each) for each in cut]


def main() -> int:
    """Install what is missing, run the tests, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("paths", nargs="*", help="files or folders to run instead of the usual ones")
    parser.add_argument("--all", action="store_true", help="run every test, also the slow ones")
    parser.add_argument("-n", type=int, default=os.cpu_count() or 2, help="groups that run at the same time")
    given = parser.parse_args()
    wine = Wine(ROOT / "build" / "windows")
    begun = time.monotonic()
    try:
        wine.install()
    except NotAvailableError as error:
        print(f"make windows was SKIPPED: {error}")
        return 1 if os.environ.get("WINDOWS_REQUIRED") else 0
    try:
        groups = groups_of(given.paths or EVERYTHING) if given.all or given.paths else groups_of(USUAL, SLOW)
        total = Outcome()
        with ThreadPoolExecutor(given.n) as pool:
            for found in pool.map(Runner(wine).run, groups):
                total.add(found)
    finally:
        wine.stop()
    show(total, time.monotonic() - begun)
    return 1 if total.failures or not total.counts["passed"] else 0


def show(total: Outcome, seconds: float) -> None:
    """Print what was skipped and why, what failed, and the counts in the last line."""
    for reason, count in total.reasons.most_common(MOST_REASONS):
        print(f"skipped {count}: {reason}")
    for failure in total.passed_later:
        print(f"passed only the second time: {failure}")
    for failure in total.failures:
        print(f"FAILED {failure}")
    for folder in sorted({folder for folder, _ in total.of_folder}):
        print(f"{folder}: {in_words({result: total.of_folder[folder, result] for result in RESULTS})}")
    print(f"CPython {PYTHON} for Windows under Wine: {in_words(total.counts)} in {seconds:.1f}s")


def in_words(counts: Mapping[str, int]) -> str:
    """Return counts as pytest prints them."""
    return ", ".join(f"{counts[result]} {result}" for result in RESULTS)


if __name__ == "__main__":
    sys.exit(main())
