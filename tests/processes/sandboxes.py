"""The engines of a sandbox, as parameters of tests. One that does not work here is skipped, with the reason."""

import os

import pytest

from twopipes._process.sandbox import bubblewrap, landlock
from twopipes._process.sandbox.engine import Unusable


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
