"""The table of tests that Windows or Wine cannot run names tests that exist, each for a reason."""

import ast
import tomllib
from fnmatch import fnmatchcase

import pytest

from systems import TABLE

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
            assert any(fnmatchcase(name, entry) for name in names_in(path)), entry
