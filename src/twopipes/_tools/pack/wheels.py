"""Download the wheels of every platform with pip, and unpack them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from twopipes._tools.usage import UsageError

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
# glibc 2.28 and older: what every Linux distribution with security updates has.
_GLIBC = [f"manylinux_2_{minor}" for minor in range(28, 4, -1)] + ["manylinux2014", "manylinux2010", "manylinux1"]
_MUSL = ["musllinux_1_2", "musllinux_1_1"]
# The tags of wheels that fit each system, the best first. pip adds older versions of macOS itself.
SYSTEMS: Mapping[str, Sequence[str]] = {
    "linux-gnu-x86_64": [f"{tag}_x86_64" for tag in _GLIBC],
    "linux-gnu-aarch64": [f"{tag}_aarch64" for tag in _GLIBC],
    "linux-musl-x86_64": [f"{tag}_x86_64" for tag in _MUSL],
    "linux-musl-aarch64": [f"{tag}_aarch64" for tag in _MUSL],
    "macos-x86_64": ["macosx_13_0_x86_64"],
    "macos-arm64": ["macosx_13_0_arm64"],
    "win-amd64": ["win_amd64"],
    "win-arm64": ["win_arm64"],
}
# Seconds for one run of pip, which has limits of its own for each connection.
_PIP_SECONDS = 600
# Runs of pip at once. Most of their time is the start of Python.
_AT_ONCE = max(4, os.cpu_count() or 1)
_NOT_FOUND = re.compile(r"No matching distribution found|Could not find a version")
_OWN_NAME = re.compile(r"twopipes\s*(?:\[(?P<extras>[^\]]*)\])?\s*(?:[<>=!~;@ ].*)?")
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")


class Build(NamedTuple):
    """A version of Python on a system."""

    python: str
    system: str

    @property
    def name(self) -> str:
        """The name that the bundle uses: cp311-linux-gnu-x86_64."""
        return f"cp{self.python.replace('.', '')}-{self.system}"


class Wheels(NamedTuple):
    """What was downloaded."""

    pure: Sequence[Path]  # fit every build
    native: Mapping[str, Sequence[Path]]  # by the name of the build
    left_out: Mapping[str, str]  # builds without wheels, and why
    conditional: Sequence[str]  # requirements that apply only on some systems and were not downloaded


def builds(pythons: Sequence[str], systems: Sequence[str]) -> list[Build]:
    """Return every pair of a version and a system."""
    return [Build(python, system) for python in pythons for system in systems]


def own_requirements(requirements: Iterable[str]) -> list[str]:
    """Replace ``twopipes`` by its dependencies: the bundle gets a copy of the running package, with the extras asked for."""
    found: list[str] = []
    for requirement in requirements:
        own = _OWN_NAME.fullmatch(requirement.strip())
        if own is None:
            found.append(requirement)
            continue
        extras = {each.strip().lower() for each in (own["extras"] or "").split(",") if each.strip()}
        for needed in metadata.requires("twopipes") or ():
            text, _, marker = needed.partition(";")
            wanted = _EXTRA.search(marker)
            if wanted is None or wanted[1].lower() in extras:
                found.append(text.strip())
    return list(dict.fromkeys(found))


def download(
    requirements: Sequence[str],
    wanted: Sequence[Build],
    folder: Path,
    *,
    must_have_all: bool,
    on_progress: Callable[[str], None] = lambda _: None,
) -> Wheels:
    """Download wheels: those for every Python once, and compiled ones for each build.

    Args:
        requirements: what the server needs, without twopipes.
        wanted: the builds of Python that the bundle is for.
        folder: where the wheels are stored.
        must_have_all: fail if a build lacks a wheel; otherwise leave it out.
        on_progress: called with a text for people, also from threads.
    """
    if not requirements:
        return Wheels((), {}, {}, ())
    pip = find_pip()
    first = folder / "first"
    on_progress("choosing versions")
    # The versions are chosen for the oldest Python, and are then the same for all of them.
    problem = _download(pip, requirements, wanted[0], first, with_dependencies=True)
    if problem:
        raise UsageError(f"the wheels for {wanted[0].name} cannot be downloaded: {problem}")
    wheels = sorted(first.glob("*.whl"))
    pure = [wheel for wheel in wheels if wheel.stem.endswith("-none-any")]
    pins = [_pin(wheel) for wheel in wheels if wheel not in pure]
    native, left_out = _natives(pip, pins, wanted, folder, on_progress) if pins else ({}, {})
    if left_out and (must_have_all or not native):
        raise UsageError("; ".join(f"{name}: {why}" for name, why in left_out.items()))
    return Wheels(pure, native, left_out, _conditional(wheels))


def _natives(
    pip: Sequence[str], pins: Sequence[str], wanted: Sequence[Build], folder: Path, on_progress: Callable[[str], None]
) -> tuple[dict[str, list[Path]], dict[str, str]]:
    def fetch(build: Build) -> str | None:
        on_progress(f"downloading wheels for {build.name}")
        return _download(pip, pins, build, folder / build.name, with_dependencies=False)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        problems = list(pool.map(fetch, wanted))
    native = {
        build.name: sorted((folder / build.name).glob("*.whl"))
        for build, problem in zip(wanted, problems, strict=True)
        if problem is None
    }
    return native, {build.name: problem for build, problem in zip(wanted, problems, strict=True) if problem is not None}


def find_pip() -> list[str]:
    """Return a command that runs pip. Any version of Python does, since the target is always given."""
    for command in ([sys.executable, "-m", "pip"], ["pip"], ["pip3"], ["uv", "tool", "run", "pip"]):
        program = shutil.which(command[0])
        if program is not None:
            words = [program, *command[1:]]
            done = subprocess.run([*words, "--version"], capture_output=True, check=False, timeout=_PIP_SECONDS)
            if done.returncode == 0:
                return words
    raise UsageError("pip was not found, and pack downloads wheels with it; install pip, or uv, which can run it")


def _download(
    pip: Sequence[str], requirements: Sequence[str], build: Build, folder: Path, *, with_dependencies: bool
) -> str | None:
    """Download wheels for one build. Returns why a wheel does not exist; other problems are raised."""
    folder.mkdir(parents=True, exist_ok=True)
    words = [*pip, "download", "--quiet", "--no-input", "--disable-pip-version-check", "--only-binary=:all:", "--dest", str(folder)]
    words += ["--implementation", "cp", "--python-version", build.python]
    words += [f"--platform={tag}" for tag in SYSTEMS[build.system]]
    words += [] if with_dependencies else ["--no-deps"]
    try:
        done = subprocess.run(
            [*words, *requirements], capture_output=True, text=True, errors="replace", check=False, timeout=_PIP_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise UsageError(f"pip did not finish within {_PIP_SECONDS} s; check the connection to the package index") from None
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")] or done.stderr.splitlines()[-1:]
    reason = " ".join(line.removeprefix("ERROR: ") for line in lines[-1:]) or f"exit code {done.returncode}"
    if _NOT_FOUND.search(done.stderr):
        return reason
    raise UsageError(f"pip cannot download the wheels for {build.name}: {reason}")


def _pin(wheel: Path) -> str:
    name, version = wheel.stem.split("-")[:2]
    return f"{name}=={version}"


def _conditional(wheels: Sequence[Path]) -> list[str]:
    """Return requirements with markers that pip did not need here: it evaluates them for the running system only."""
    have = {wheel.stem.split("-")[0].lower().replace("-", "_") for wheel in wheels}
    found: list[str] = []
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            name = next(each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
            lines = archive.read(name).decode(errors="replace").partition("\n\n")[0].splitlines()
        for line in lines:
            requirement, _, marker = line.removeprefix("Requires-Dist:").partition(";")
            wanted = re.match(r"[A-Za-z0-9._-]+", requirement.strip())
            if not line.startswith("Requires-Dist:") or not marker or _EXTRA.search(marker) or wanted is None:
                continue
            if re.sub(r"[-_.]+", "_", wanted[0]).lower() not in have:
                found.append(f"{wanted[0]} ({wheel.stem.split('-')[0]} needs it if {marker.strip()})")
    return found


def unpacked(wheel: Path) -> dict[str, bytes]:
    """Return the files of a wheel, by their paths when installed. Scripts and headers are left out."""
    found: dict[str, bytes] = {}
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            parts = name.split("/")
            if name.endswith("/") or ".." in parts or name.startswith("/") or "\\" in name:
                continue
            if parts[0].endswith(".data"):
                if len(parts) < 3 or parts[1] not in {"purelib", "platlib"}:
                    continue
                parts = parts[2:]
            found["/".join(parts)] = archive.read(name)
    return found
