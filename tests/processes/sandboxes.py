"""The engines of a sandbox, as parameters of tests. One that does not work here is skipped, with the reason."""

import os
from pathlib import Path

import pytest

from twopipes._process.sandbox import bubblewrap, landlock
from twopipes._process.sandbox.engine import Unusable

ROOT = Path(__file__).parents[2]
SERVER = Path(__file__).with_name("sandboxed_server.py")
# The code of the server, which is not installed in the folder of Python.
CODE = (SERVER, ROOT / "src")


def problem_of(find):
    try:
        find()
    except Unusable as problem:
        return str(problem)
    return None


def engine(name, find):
    problem = problem_of(find)
    # In `make sandbox` nothing may be skipped.
    skip = pytest.mark.skipif(problem is not None and "SANDBOX_REQUIRED" not in os.environ, reason=f"{name}: {problem}")
    return pytest.param(name, marks=skip)


BUBBLEWRAP = engine("bubblewrap", bubblewrap.find)
LANDLOCK = engine("landlock", landlock.find)
ENGINES = [BUBBLEWRAP, LANDLOCK]
with_every_engine = pytest.mark.parametrize("engine", ENGINES)


def descendants(pid):
    found = [int(each) for path in Path(f"/proc/{pid}/task").glob("*/children") for each in path.read_text().split()]
    return [*found, *(inner for each in found for inner in descendants(each))]
