"""Tests of the code for Windows, with real processes. `make windows` runs them under Wine."""

import sys
import textwrap

import pytest

from twopipes._process.command import ServerCommand


def pytest_collection_modifyitems(items):
    for item in items:
        if "windows" in item.path.parts and sys.platform != "win32":
            item.add_marker(pytest.mark.skip(reason="needs Windows, or Wine: make windows"))


@pytest.fixture
def write(tmp_path):
    """Write a program to the folder of the test, and return its path."""

    def write(text, name="server.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text).lstrip(), encoding="utf-8")
        return path

    return write


@pytest.fixture
def program(write):
    """Return the command of a Python program."""

    def program(text, *arguments, **options):
        return ServerCommand([sys.executable, str(write(text)), *arguments], environment="inherit", **options)

    return program
