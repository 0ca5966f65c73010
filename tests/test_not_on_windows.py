"""The table of tests that Windows or Wine cannot run names tests that exist, each for a reason."""

import ast
import tomllib
from fnmatch import fnmatchcase

import pytest

from systems import OF_POSIX, TABLE, imports_of

ROWS = [row for rows in tomllib.loads(TABLE.read_text(encoding="utf-8")).values() for row in rows]


def names_in(path):
    """Return the tests of a file, also those of its classes."""
    tree = ast.parse((TABLE.parent / path).read_text(encoding="utf-8"))
    functions = (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
    return [f"{path}::{each.name}" for each in functions if each.name.startswith("test_")]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["reason"][:40])
def test_every_row_names_tests_that_exist(row):
    assert row["reason"]
    for entry in row["tests"]:
        path = entry.partition("::")[0]
        assert list(TABLE.parent.glob(path)), entry
        if "::" in entry:
            assert any(fnmatchcase(name, entry.partition("[")[0]) for name in names_in(path)), entry


def test_no_file_is_left_out_because_of_an_import():
    """A module of POSIX at the top would leave out the whole file on Windows, also the tests that do not need it."""
    files = [file for folder in ("unit", "properties", "processes") for file in (TABLE.parent / folder).rglob("test_*.py")]
    found = {file.relative_to(TABLE.parent).as_posix() for file in files if imports_of(file) & OF_POSIX}
    # They are made of descriptors, terminals and forks of POSIX.
    assert found == {"unit/channels/test_stderr.py", "unit/channels/test_stdio.py"}
