"""Check a built release as its users get it: its content, what it installs, and whether the tests pass on it.

    python tools/release_check.py [FOLDER]      dist by default, where `make dist` has put an sdist and a wheel

Nothing of the checkout is used but ``pyproject.toml``, for what the tests need. The tests are those of the sdist, without its
source, and twopipes is that of the wheel.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "twopipes"
# What the sdist must contain.
WANTED = (
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "Makefile", "mkdocs.yml", "pyproject.toml"),
    *("src/twopipes/__init__.py", "src/twopipes/py.typed", "tests/conftest.py", "tools/demo.py"),
    *("docs/tutorial/first-server.md", "tools/release_check.py", "benchmarks/bench.py", "fuzz/fuzz_decoder.py"),
)
# What it must not contain: generated files.
UNWANTED = {".venv", ".git", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".coverage", "build", "dist", "site"}
# A part of the tests, which touches all that could be missing from a wheel: entry points, files beside the code, real processes.
# The rest is code alone, and every file of it is in the wheel, as `faults` shows.
TESTS = (
    *(f"tests/unit/{room}" for room in ("channels", "cli", "process", "testing", "tools")),
    *("tests/test_public_names.py", "tests/test_examples.py", "tests/test_demo.py"),
    *(f"tests/processes/test_{name}.py" for name in ("example_servers", "wire", "view", "tap_command")),
)
# Seconds for one program. Nothing takes so long unless it hangs.
NET = 900


class Release(NamedTuple):
    """The built files."""

    wheel: Path
    sdist: Path

    @classmethod
    def of(cls, folder: Path) -> Release:
        """Return the wheel and the sdist of a folder.

        Raises:
            ValueError: The folder has none, or several.
        """
        wheels, sdists = list(folder.glob("*.whl")), list(folder.glob("*.tar.gz"))
        if len(wheels) != 1 or len(sdists) != 1:
            raise ValueError(
                f"{folder} should hold one wheel and one sdist, and has {len(wheels)} and {len(sdists)}; run: make dist"
            )
        return cls(wheels[0], sdists[0])

    @property
    def packed(self) -> set[str]:
        """The files of the wheel."""
        with ZipFile(self.wheel) as wheel:
            return {name for name in wheel.namelist() if not name.endswith("/")}

    @property
    def shipped(self) -> set[str]:
        """The files of the sdist, seen from its folder."""
        with tarfile.open(self.sdist) as sdist:
            return {member.name.partition("/")[2] for member in sdist.getmembers() if member.isfile()}

    @property
    def metadata(self) -> Message:
        """The metadata of the wheel."""
        with ZipFile(self.wheel) as wheel:
            (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
            return Parser().parsestr(wheel.read(name).decode())


def source_files() -> set[str]:
    """Return the files of the package in the checkout, as a wheel names them."""
    found = (path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(PACKAGE.parent).as_posix() for path in found}


def version() -> str:
    """Return the version of the checkout."""
    said: dict[str, str] = {}
    exec((PACKAGE / "_version.py").read_text(encoding="utf-8"), said)
    return said["__version__"]


def faults(release: Release) -> Iterator[str]:
    """Yield the faults of the built files."""
    yield from _wheel_faults(release.packed)
    yield from _sdist_faults(release.shipped)
    yield from _metadata_faults(release.metadata)


def _wheel_faults(packed: set[str]) -> Iterator[str]:
    code = {name for name in packed if ".dist-info/" not in name}
    yield from (f"the wheel lacks {name}" for name in sorted(source_files() - code))
    yield from (f"the wheel has {name}, which the source does not" for name in sorted(code - source_files()))
    info = f"twopipes-{version()}.dist-info"
    wanted = [f"{info}/entry_points.txt", f"{info}/licenses/LICENSE", "twopipes/py.typed", "twopipes/_tools/view/page/page.html"]
    yield from (f"the wheel lacks {name}" for name in wanted if name not in packed)


def _sdist_faults(shipped: set[str]) -> Iterator[str]:
    yield from (f"the sdist lacks {name}" for name in WANTED if name not in shipped)
    yield from (f"the sdist lacks {name}" for name in sorted(f"src/{name}" for name in source_files()) if name not in shipped)
    # At the top alone: a package of ours may be called anything.
    junk = {name for name in shipped if name.partition("/")[0] in UNWANTED or "__pycache__" in name.split("/")}
    yield from (f"the sdist has {name}, which does not belong there" for name in sorted(junk))


def _metadata_faults(metadata: Message) -> Iterator[str]:
    wanted = {
        "Name": "twopipes",
        "Version": version(),
        "License-Expression": "MIT",
        "License-File": "LICENSE",
        "Requires-Python": ">=3.11",
        "Description-Content-Type": "text/markdown",
    }
    for name, value in wanted.items():
        if metadata[name] != value:
            yield f"the metadata says {name}: {metadata[name]}, and not {value}"
    yield from (f"the metadata has no {name}" for name in ("Summary", "Author", "Keywords", "Classifier") if not metadata[name])
    needed = [each for each in metadata.get_all("Requires-Dist", []) if "extra ==" not in each]
    if [each.partition(">")[0] for each in needed] != ["msgspec"]:
        yield f"it needs {', '.join(needed) or 'nothing'}, and should need msgspec alone"
    if "## First steps" not in str(metadata.get_payload()):
        yield "the description is not the README"


# What it does where it is installed


def run(*words: str | Path, folder: Path = ROOT) -> str:
    """Run a program and return its output.

    Raises:
        subprocess.CalledProcessError: It failed.
    """
    # Nothing of this process leads the program back to the checkout.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(
        [str(word) for word in words], cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True, timeout=NET
    )
    return done.stdout


def check_contents_of_both_ways(release: Release, scratch: Path) -> None:
    """Check that the wheel built from the sdist has the files of the wheel built from the checkout."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", scratch / "direct")
    (direct,) = (scratch / "direct").glob("*.whl")
    with ZipFile(direct) as wheel:
        if {name for name in wheel.namelist() if not name.endswith("/")} != release.packed:
            raise ValueError("the wheel that is made of the sdist and the one that is made of the checkout have different files")


def check_what_is_installed(release: Release, scratch: Path) -> Path:
    """Install the wheel into an empty environment, check that only msgspec comes with it, and return its Python."""
    run(sys.executable, "-m", "venv", "--without-pip", scratch / "venv")
    python = scratch / "venv" / "bin" / "python"
    pip(python, "install", release.wheel)
    names = sorted(re.split("==| @ ", line)[0] for line in pip(python, "freeze").splitlines())  # `twopipes @ file:///...`
    if names != ["msgspec", "twopipes"]:
        raise ValueError(f"pip install twopipes brought {', '.join(names)}")
    said = run(scratch / "venv" / "bin" / "twopipes", "--version", folder=scratch).strip()
    if said != f"twopipes {version()}":
        raise ValueError(f"the installed command says {said!r}")
    return python


def pip(python: Path, *words: str | Path) -> str:
    """Return our pip for another environment, which has no pip itself."""
    return run(sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "-q", *words)


def run_tests(release: Release, python: Path, scratch: Path) -> None:
    """Run tests of the sdist on the installed wheel, in a folder without the source."""
    with tarfile.open(release.sdist) as sdist:
        sdist.extractall(scratch, filter="data")
    folder = scratch / release.sdist.name.removesuffix(".tar.gz")
    shutil.rmtree(folder / "src")
    pip(python, "install", "--group", "dev")
    place = run(python, "-c", "import twopipes; print(twopipes.__file__)", folder=folder).strip()
    if not Path(place).is_relative_to(scratch / "venv"):
        raise ValueError(f"the tests would run on {place}, and not on the wheel")
    command = [str(python), "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal", "-p", "no:cacheprovider", *TESTS]
    # Generated cases are the same each time: a release check must not depend on chance.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))} | {
        "CI": "1"
    }
    subprocess.run(command, cwd=folder, env=environment, check=True, timeout=NET)


def main() -> int:
    """Run the program and return its exit code."""
    try:
        release = Release.of(Path(sys.argv[1] if len(sys.argv) > 1 else "dist"))
        print(f"{release.wheel.name}: {len(release.packed)} files; {release.sdist.name}: {len(release.shipped)} files")
        if found := list(faults(release)):
            print(*found, sep="\n")
            return 1
        with tempfile.TemporaryDirectory(prefix="release-") as name:
            scratch = Path(name).resolve()
            check_contents_of_both_ways(release, scratch)
            print("the sdist makes the same wheel as the checkout", flush=True)
            python = check_what_is_installed(release, scratch)
            print("it installs msgspec and itself, and nothing else", flush=True)
            run_tests(release, python, scratch)
    except (ValueError, OSError, subprocess.SubprocessError) as failure:
        print(f"Error: {failure}", file=sys.stderr)
        return 1
    print("The release can be made.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
