"""Lists the rules of the specification with the tests that carry their ids, and those that no test carries yet.

The table of ids is the project's own (``rules.toml`` beside this file). An id counts as tested when it stands in a test's name,
docstring or comment, or in a conversation under ``tests/conversations``.
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
# Where the page lies when the specification was checked out beside the project.
PAGE = PROJECT.parent / "shared" / "spec" / "requirements.md"

RULE_ID = re.compile(r"\b[A-Z]{2}-\d\d\b")
ROW_OF_THE_PAGE = re.compile(r"^\| ([A-Z]{2}-\d\d) \|", re.MULTILINE)
# Its ids are examples.
TESTS_OF_THIS_TOOL = "test_rules.py"
# Tests of what judges others: they name a rule because somebody breaks it, and show nothing about us.
JUDGES = ("check/", "unit/trace/")


class Rules(NamedTuple):
    """The table: which rooms each rule concerns, which of the rooms exist, and where the tests of a room have to be."""

    rooms: dict[str, list[str]]
    built: list[str]
    later: list[str]
    places: dict[str, list[str]] = {}  # noqa: RUF012 - a named tuple copies no default, and nobody writes to this one

    def due(self, room: str | None = None, *, later_too: bool = False) -> list[str]:
        """The rules that need a test: those of the rooms that exist, or of all rooms; of one room if it is named."""
        wanted = self._wanted(room, later_too=later_too)
        return [rule for rule, rooms in self.rooms.items() if wanted.intersection(rooms)]

    def missing(self, tests: dict[str, list[str]], room: str | None = None, *, later_too: bool = False) -> dict[str, list[str]]:
        """The rules that are due and lack a test, with the rooms in which it is lacking."""
        wanted = self._wanted(room, later_too=later_too)
        lacking = {
            rule: [each for each in self._lacking(rule, tests) if each in wanted] for rule in self.due(room, later_too=later_too)
        }
        return {rule: rooms for rule, rooms in lacking.items() if rooms}

    def _wanted(self, room: str | None, *, later_too: bool) -> set[str]:
        return {room} if room else {*self.built, *self.later} if later_too else set(self.built)

    def _lacking(self, rule: str, tests: dict[str, list[str]]) -> list[str]:
        files = tests.get(rule, [])
        return [room for room in self.rooms[rule] if not any(file.startswith(tuple(self.places.get(room, [""]))) for file in files)]


def read_table(path: Path = TABLE) -> Rules:
    """Reads the table and refuses one with an unknown room, an id in the wrong section, or a reason for nothing."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    known = {*table["built"], *table["later"]}
    rooms: dict[str, list[str]] = {}
    for section, rows in table["rules"].items():
        for rule, concerned in rows.items():
            if not RULE_ID.fullmatch(rule) or not rule.startswith(section):
                raise ValueError(f"{rule} is not an id of section {section}")
            if not concerned or not known.issuperset(concerned):
                raise ValueError(f"{rule} concerns {concerned}; the rooms are {sorted(known)}")
            rooms[rule] = concerned
    for room, reasons in table.get("reasons", {}).items():
        for rule in reasons:
            if room in rooms.get(rule, [room]):
                raise ValueError(f"{rule} has a reason not to concern {room}, and does, or does not exist")
    return Rules(rooms, table["built"], table["later"], table.get("places", {}))


def find_tests(folder: Path = TESTS) -> dict[str, list[str]]:
    """The files, in order, that carry each id."""
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
    """In which ids the table and the page differ, in sentences."""
    ours = set(table)
    theirs = set(ROW_OF_THE_PAGE.findall(page.read_text(encoding="utf-8")))
    return [
        *(f"{rule} is on the page and not in the table" for rule in sorted(theirs - ours)),
        *(f"{rule} is in the table and not on the page" for rule in sorted(ours - theirs)),
    ]


def counts(rules: Rules, due: list[str], missing: Container[str]) -> list[str]:
    """One line for each section: how many rules it has, how many of them need a test, how many have one."""
    lines = ["section  rules  due  tested"]
    for section in sorted({rule[:2] for rule in rules.rooms}):
        of_the_section = [rule for rule in due if rule.startswith(section)]
        tested = sum(rule not in missing for rule in of_the_section)
        lines.append(
            f"{section:<7}  {sum(rule.startswith(section) for rule in rules.rooms):>5}  {len(of_the_section):>3}  {tested:>6}"
        )
    tested = sum(rule not in missing for rule in due)
    return [*lines, f"{'all':<7}  {len(rules.rooms):>5}  {len(due):>3}  {tested:>6}"]


def main(arguments: list[str] | None = None) -> int:
    """Prints what was asked for; the exit code is 1 when a rule lacks its test or the page has other ids than the table."""
    rules = read_table()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--missing", action="store_true", help="only the rules that need a test and have none")
    parser.add_argument("--room", choices=[*rules.built, *rules.later], help="only the rules of this room")
    parser.add_argument("--all", action="store_true", help="the rules of rooms to come, too")
    parser.add_argument("--against", type=Path, metavar="PATH", help="compare the ids with this page of the specification")
    options = parser.parse_args(arguments)

    tests = find_tests()
    due = rules.due(options.room, later_too=options.all)
    missing = rules.missing(tests, options.room, later_too=options.all)
    if options.missing:
        print("\n".join(f"{rule}  {', '.join(rooms)}" for rule, rooms in missing.items()) or "none")
    else:
        print("\n".join(counts(rules, due, missing)), "\n")
        for rule in due:
            if rule in tests:
                print(f"{rule}  {', '.join(tests[rule])}")
        print(f"\nwithout a test: {len(missing)}")
        for rule, rooms in missing.items():
            print(f"{rule}  {', '.join(rooms)}")

    page = options.against or (PAGE if PAGE.is_file() else None)
    wrong = differences(rules.rooms, page) if page else []
    wrong += [f"{rule} stands in {tests[rule][0]} and not in the table" for rule in sorted(tests.keys() - rules.rooms.keys())]
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    return 1 if missing or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
