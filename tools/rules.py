"""List the rules of the specification with the tests that name their ids, and the rules that no test names yet.

The table of ids is ``rules.toml`` beside this file. An id counts as tested if it is in the name, docstring or comment of a test, or
in a conversation under ``tests/conversations``.
"""

import argparse
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Container, Iterable
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).resolve().parents[1]
TABLE = PROJECT / "tools" / "rules.toml"
TESTS = PROJECT / "tests"
# The page of the requirements, if it is beside the project.
PAGE = PROJECT.parent / "shared" / "spec" / "requirements.md"

RULE_ID = re.compile(r"\b[A-Z]{2}-\d\d\b")
ROW_OF_THE_PAGE = re.compile(r"^\| ([A-Z]{2}-\d\d) \|", re.MULTILINE)
# The page leaves HTTP out; the rows of this section are ours.
NOT_ON_THE_PAGE = "HT"
# The ids in this file are examples.
TESTS_OF_THIS_TOOL = "test_rules.py"
# Tests of judges name rules that a peer breaks, and say nothing about this implementation.
JUDGES = ("check/", "unit/trace/")


class Rules(NamedTuple):
    """The table: which packages each rule concerns, which packages exist, and where the tests of a package have to be."""

    packages: dict[str, list[str]]
    built: list[str]
    later: list[str]
    places: dict[str, list[str]] = {}  # noqa: RUF012 - never modified

    def due(self, package: str | None = None, *, later_too: bool = False) -> list[str]:
        """Return the rules that need a test: those of the existing packages, of all packages, or of one package."""
        wanted = self._wanted(package, later_too=later_too)
        return [rule for rule, packages in self.packages.items() if wanted.intersection(packages)]

    def missing(self, tests: dict[str, list[str]], package: str | None = None, *, later_too: bool = False) -> dict[str, list[str]]:
        """Return the due rules without a test, with the packages that lack one."""
        wanted = self._wanted(package, later_too=later_too)
        lacking = {
            rule: [each for each in self._lacking(rule, tests) if each in wanted] for rule in self.due(package, later_too=later_too)
        }
        return {rule: packages for rule, packages in lacking.items() if packages}

    def _wanted(self, package: str | None, *, later_too: bool) -> set[str]:
        return {package} if package else {*self.built, *self.later} if later_too else set(self.built)

    def _lacking(self, rule: str, tests: dict[str, list[str]]) -> list[str]:
        files = tests.get(rule, [])
        return [
            package
            for package in self.packages[rule]
            if not any(file.startswith(tuple(self.places.get(package, [""]))) for file in files)
        ]


def read_table(path: Path = TABLE) -> Rules:
    """Read the table. Reject an unknown package, an id in the wrong section, and a reason without a rule."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    known = {*table["built"], *table["later"]}
    packages: dict[str, list[str]] = {}
    for section, rows in table["rules"].items():
        for rule, concerned in rows.items():
            if not RULE_ID.fullmatch(rule) or not rule.startswith(section):
                raise ValueError(f"{rule} is not an id of section {section}")
            if not concerned or not known.issuperset(concerned):
                raise ValueError(f"{rule} concerns {concerned}; the packages are {sorted(known)}")
            packages[rule] = concerned
    for package, reasons in table.get("reasons", {}).items():
        for rule in reasons:
            if package in packages.get(rule, [package]):
                raise ValueError(f"{rule} has a reason not to concern {package}, but concerns it or does not exist")
    return Rules(packages, table["built"], table["later"], table.get("places", {}))


def find_tests(folder: Path = TESTS) -> dict[str, list[str]]:
    """Return the files that name each id, in order."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted([*folder.rglob("*.py"), *folder.glob("conversations/**/*.txt")]):
        if path.name == TESTS_OF_THIS_TOOL or "__pycache__" in path.parts:
            continue
        if path.relative_to(folder).as_posix().startswith(JUDGES):
            continue
        for rule in sorted(set(RULE_ID.findall(path.read_text(encoding="utf-8")))):
            found[rule].append(path.relative_to(folder).as_posix())
    return dict(found)


def differences(table: Iterable[str], page: Path) -> list[str]:
    """Return the differences between the ids of the table and of the page, as sentences."""
    ours = {rule for rule in table if not rule.startswith(NOT_ON_THE_PAGE)}
    theirs = set(ROW_OF_THE_PAGE.findall(page.read_text(encoding="utf-8")))
    return [
        *(f"{rule} is on the page and not in the table" for rule in sorted(theirs - ours)),
        *(f"{rule} is in the table and not on the page" for rule in sorted(ours - theirs)),
    ]


def counts(rules: Rules, due: list[str], missing: Container[str]) -> list[str]:
    """Return one line for each section: the number of rules, of due rules and of tested rules."""
    lines = ["section  rules  due  tested"]
    for section in sorted({rule[:2] for rule in rules.packages}):
        of_the_section = [rule for rule in due if rule.startswith(section)]
        tested = sum(rule not in missing for rule in of_the_section)
        lines.append(
            f"{section:<7}  {sum(rule.startswith(section) for rule in rules.packages):>5}  {len(of_the_section):>3}  {tested:>6}"
        )
    tested = sum(rule not in missing for rule in due)
    return [*lines, f"{'all':<7}  {len(rules.packages):>5}  {len(due):>3}  {tested:>6}"]


def main(arguments: list[str] | None = None) -> int:
    """Print the list. Return 1 if a rule has no test, or if the ids of the page and the table differ."""
    rules = read_table()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--missing", action="store_true", help="show only rules that need a test and have none")
    parser.add_argument("--package", choices=[*rules.built, *rules.later], help="show only the rules of this package")
    parser.add_argument("--all", action="store_true", help="include the rules of future packages")
    parser.add_argument("--against", type=Path, metavar="PATH", help="compare the ids with this page of the specification")
    options = parser.parse_args(arguments)

    tests = find_tests()
    due = rules.due(options.package, later_too=options.all)
    missing = rules.missing(tests, options.package, later_too=options.all)
    if options.missing:
        print("\n".join(f"{rule}  {', '.join(packages)}" for rule, packages in missing.items()) or "none")
    else:
        print("\n".join(counts(rules, due, missing)), "\n")
        for rule in due:
            if rule in tests:
                print(f"{rule}  {', '.join(tests[rule])}")
        print(f"\nwithout a test: {len(missing)}")
        for rule, packages in missing.items():
            print(f"{rule}  {', '.join(packages)}")

    page = options.against or (PAGE if PAGE.is_file() else None)
    wrong = differences(rules.packages, page) if page else []
    wrong += [f"{rule} is in {tests[rule][0]} and not in the table" for rule in sorted(tests.keys() - rules.packages.keys())]
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    return 1 if missing or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
