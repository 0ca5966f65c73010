"""The file that starts a packed server: which packages fit the running Python."""

import ast
import os
import platform
import subprocess
import sys
import sysconfig

import pytest

from twopipes._tools.pack.bundle import _bootstrap
from twopipes._tools.pack.source import read_source
from twopipes._tools.pack.wheels import PYTHONS, SYSTEMS, builds


@pytest.fixture
def source(tmp_path):
    (tmp_path / "server.py").write_text("print('the server')")
    return read_source(tmp_path / "server.py")


@pytest.fixture
def started(source):
    """The namespace of the file, with nothing started."""
    names = {"__name__": "bootstrap", "__file__": "/bundle/server/main.py"}
    exec(compile(_bootstrap(source, {}), "main.py", "exec"), names)
    return names


@pytest.mark.parametrize(
    ("running", "libc", "expected"),
    [
        (("linux", "x86_64", "linux-x86_64"), "glibc 2.36", "cp312-linux-gnu-x86_64"),
        (("linux", "aarch64", "linux-aarch64"), "glibc 2.36", "cp312-linux-gnu-aarch64"),
        (("linux", "x86_64", "linux-x86_64"), None, "cp312-linux-musl-x86_64"),
        (("darwin", "arm64", "macosx-11.0-arm64"), None, "cp312-macos-arm64"),
        (("darwin", "x86_64", "macosx-10.13-universal2"), None, "cp312-macos-x86_64"),
        (("win32", "AMD64", "win-amd64"), None, "cp312-win-amd64"),
        (("win32", "ARM64", "win-amd64"), None, "cp312-win-amd64"),  # a Python for another processor, emulated
        (("win32", "ARM64", "win-arm64"), None, "cp312-win-arm64"),
        (("win32", "AMD64", "win32"), None, "cp312-win-win32"),  # 32 bits: no bundle has it
    ],
)
def test_the_name_of_the_running_build(running, libc, expected, started, monkeypatch):
    system, machine, platform_name = running

    def confstr(name):
        if libc is None:
            raise ValueError(name)
        return libc

    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(sys, "version_info", (3, 12, 1, "final", 0))
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(sysconfig, "get_platform", lambda: platform_name)
    monkeypatch.setattr(sysconfig, "get_config_var", {"Py_GIL_DISABLED": 0}.get)
    monkeypatch.setattr(os, "confstr", confstr, raising=False)
    assert started["this_build"]() == expected
    assert expected == "cp312-win-win32" or expected in {build.name for build in builds(PYTHONS, list(SYSTEMS))}


def test_a_free_threaded_python_needs_its_own_build(started, monkeypatch):
    monkeypatch.setattr(sysconfig, "get_config_var", {"Py_GIL_DISABLED": 1}.get)
    assert started["this_build"]().startswith(f"cp{sys.version_info[0]}{sys.version_info[1]}t-")


def run(tmp_path, text):
    (tmp_path / "main.py").write_text(text)
    return subprocess.run(
        [sys.executable, "-I", str(tmp_path / "main.py")], capture_output=True, text=True, check=False, timeout=60
    )


def test_a_build_that_is_missing_is_reported_with_those_that_exist(source, tmp_path):
    done = run(tmp_path, _bootstrap(source, {"cp39-win-arm64": ["cp39-win-arm64/x"]}))
    assert done.returncode == 1
    assert done.stderr.startswith("Error: this bundle has no packages for cp3")
    assert done.stderr.endswith("; it has them for cp39-win-arm64\n")


def test_an_old_python_is_reported(source, tmp_path):
    done = run(tmp_path, _bootstrap(source, {}).replace("(3, 11)", "(9, 9)"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: this server needs Python 9.9 or newer; this is 3.")


def test_an_old_python_can_read_it(source):
    ast.parse(_bootstrap(source, {"cp311-win-amd64": ["cp311-win-amd64/x"]}), feature_version=(3, 4))
