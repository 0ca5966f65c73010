"""The files of a release, built without the network. `make release-check` installs it and tests that."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import twopipes

pytestmark = pytest.mark.walkthrough  # it builds a release
ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
VERSION = re.compile(r"""(?:__version__|^version)\s*=\s*["']""", re.MULTILINE)


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


tool = load("release_check")


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """Build an sdist and a wheel of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=100)
    return tool.Release.of(folder)


# The sdist and the wheel


def test_the_release_has_no_faults(release):
    assert list(tool.faults(release)) == []


def test_the_wheel_has_the_files_that_are_not_python(release):
    """The type marker, and the parts of the HTML page."""
    others = {name for name in release.packed if name.startswith("twopipes/") and not name.endswith(".py")}
    assert {"twopipes/py.typed", "twopipes/_tools/view/page/page.html", "twopipes/_tools/view/page/page.css"} <= others
    assert others == {name for name in tool.source_files() if not name.endswith(".py")}


def test_the_sdist_has_all_tracked_files(release):
    assert {path.name for path in ROOT.glob("*.md")} <= release.shipped
    if (ROOT / ".git").exists():
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True, timeout=60).stdout.split(
            "\n"
        )
        tracked = {
            name
            for name in listed
            if (ROOT / name).is_file()
            and not name.startswith((".ci/", ".github/", ".pre-commit", ".editorconfig", ".gitattributes"))
        }
        assert tracked - release.shipped == set()


def test_missing_and_extra_files_are_reported(release):
    packed = (release.packed - {"twopipes/py.typed"}) | {"twopipes/stray.py"}
    faults = list(tool._wheel_faults(packed))
    assert "the wheel lacks twopipes/py.typed" in faults
    assert "the wheel has twopipes/stray.py, which the source does not" in faults
    faults = list(tool._sdist_faults(release.shipped - {"LICENSE"} | {"build/x", "tests/__pycache__/x.pyc"}))
    assert faults == [
        "the sdist lacks LICENSE",
        "the sdist has build/x, which does not belong there",
        "the sdist has tests/__pycache__/x.pyc, which does not belong there",
    ]


def test_metadata_with_more_dependencies_than_msgspec_is_reported(release):
    metadata = release.metadata
    metadata["Requires-Dist"] = "pydantic>=2"
    del metadata["License-Expression"]
    faults = list(tool._metadata_faults(metadata))
    assert faults == [
        "the metadata says License-Expression: None, and not MIT",
        "it needs msgspec>=0.20, pydantic>=2, and should need msgspec alone",
    ]


def test_a_folder_without_a_release_is_reported(tmp_path):
    with pytest.raises(ValueError, match="make dist"):
        tool.Release.of(tmp_path)


# Content of the files


def test_the_version_is_defined_in_one_place():
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["hatch"]["version"] == {"path": "src/twopipes/_version.py"}
    assert tool.version() == twopipes.__version__
    sources = [ROOT / "pyproject.toml", *(ROOT / "src").rglob("*.py")]
    assert [path.name for path in sources if VERSION.search(path.read_text(encoding="utf-8"))] == ["_version.py"]


def test_msgspec_is_the_only_dependency():
    assert [re.split(r"\W", each)[0] for each in PROJECT["project"]["dependencies"]] == ["msgspec"]


def test_the_licence_file_matches_the_metadata():
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert text.startswith("MIT License\n\nCopyright (c) ")
    assert PROJECT["project"]["license"] == "MIT"
    assert PROJECT["project"]["license-files"] == ["LICENSE"]


def test_the_changelog_has_this_version_and_a_section_for_the_next():
    titles = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert titles[0] == "Unreleased"
    assert titles[1].split()[0] == twopipes.__version__


def test_the_tests_named_on_the_security_page_exist():
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "SECURITY.md").read_text(encoding="utf-8")))
    assert len(named) > 40
    found = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        found |= set(re.findall(r"^(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE))
    assert sorted(named - found) == []


def test_no_page_contains_a_local_path():
    pages = [ROOT / "README.md", ROOT / "SECURITY.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
    for page in pages:
        assert not re.search(r"/(?:work|root|tmp)/", page.read_text(encoding="utf-8")), page.name
