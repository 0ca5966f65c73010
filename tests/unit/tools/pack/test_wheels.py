"""Wheels of every platform, with pip and wheels in a folder."""

import zipfile

import pytest

from packing import make_wheel, only_these_wheels
from twopipes._tools.pack.bundle import files_of, write_archive
from twopipes._tools.pack.source import read_source
from twopipes._tools.pack.wheels import Wheels, builds, download, own_requirements, unpacked
from twopipes._tools.usage import UsageError

pytestmark = pytest.mark.slow

LINUX, MAC, WINDOWS = "linux-gnu-x86_64", "macos-arm64", "win-amd64"


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A folder with wheels: `fast` is compiled for each Python, `steady` for all of them, and both need `plain`."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    for python in ("311", "312"):
        for tag in ("manylinux_2_17_x86_64", "macosx_11_0_arm64", "win_amd64"):
            make_wheel(folder, "fast", f"cp{python}-cp{python}-{tag}", requires=["plain", 'colours; sys_platform == "win32"'])
    for tag in ("manylinux2014_x86_64", "macosx_10_9_universal2"):
        make_wheel(folder, "steady", f"cp38-abi3-{tag}", requires=["plain", 'nicer; extra == "more"'])
    make_wheel(folder, "plain", "py3-none-any")
    only_these_wheels(monkeypatch, folder)
    return folder


def names(wheels):
    return [wheel.name.removesuffix(".whl") for wheel in wheels]


def test_each_build_gets_the_wheels_that_fit_it(shelf, tmp_path):
    found = download(["fast"], builds(["3.11", "3.12"], [LINUX, MAC, WINDOWS]), tmp_path, must_have_all=True)
    assert names(found.pure) == ["plain-1.0-py3-none-any"]
    assert {build: names(wheels) for build, wheels in found.native.items()} == {
        "cp311-linux-gnu-x86_64": ["fast-1.0-cp311-cp311-manylinux_2_17_x86_64"],
        "cp311-macos-arm64": ["fast-1.0-cp311-cp311-macosx_11_0_arm64"],
        "cp311-win-amd64": ["fast-1.0-cp311-cp311-win_amd64"],
        "cp312-linux-gnu-x86_64": ["fast-1.0-cp312-cp312-manylinux_2_17_x86_64"],
        "cp312-macos-arm64": ["fast-1.0-cp312-cp312-macosx_11_0_arm64"],
        "cp312-win-amd64": ["fast-1.0-cp312-cp312-win_amd64"],
    }
    assert found.left_out == {}
    assert found.conditional == ['colours (fast needs it if sys_platform == "win32")']


def test_a_build_without_wheels_is_left_out_or_an_error(shelf, tmp_path):
    wanted = builds(["3.11"], [LINUX, WINDOWS])
    found = download(["steady"], wanted, tmp_path / "a", must_have_all=False)
    assert list(found.native) == ["cp311-linux-gnu-x86_64"]
    assert list(found.left_out) == ["cp311-win-amd64"]
    assert "No matching distribution found for steady==1.0" in found.left_out["cp311-win-amd64"]
    with pytest.raises(UsageError, match=r"cp311-win-amd64: No matching distribution found for steady==1\.0"):
        download(["steady"], wanted, tmp_path / "b", must_have_all=True)


def test_an_unknown_package_is_an_error(shelf, tmp_path):
    with pytest.raises(UsageError, match=r"the wheels for cp311-linux-gnu-x86_64 cannot be downloaded: No matching .* nothing"):
        download(["nothing-like-it"], builds(["3.11"], [LINUX]), tmp_path, must_have_all=False)


def test_no_requirements_need_no_pip(tmp_path):
    assert download([], builds(["3.11"], [LINUX]), tmp_path, must_have_all=True) == Wheels((), {}, {}, ())


def test_a_wheel_that_fits_several_builds_is_packed_once(shelf, tmp_path):
    found = download(["steady"], builds(["3.11", "3.12"], [LINUX]), tmp_path / "w", must_have_all=True)
    (tmp_path / "server.py").write_text("")
    files = files_of(read_source(tmp_path / "server.py"), found)
    modules = [path for path in files if path.endswith("steady.py")]
    assert modules == ["server/native/cp311-linux-gnu-x86_64/steady/steady.py"]
    assert b"'cp312-linux-gnu-x86_64': ['cp311-linux-gnu-x86_64/steady']" in files["server/main.py"]
    assert "server/lib/plain.py" in files
    assert "server/lib/twopipes/__init__.py" in files
    assert not any("__pycache__" in path for path in files)


def test_our_own_requirements():
    assert own_requirements(["twopipes>=0.1", "httpx"]) == ["msgspec>=0.20", "httpx"]
    assert set(own_requirements(["twopipes[watch, cli]"])) >= {"msgspec>=0.20", "rich>=13.9", "watchfiles>=1.1"}
    assert own_requirements(["twopipes-extras", "twopipesx>1"]) == ["twopipes-extras", "twopipesx>1"]


def test_a_wheel_cannot_write_outside_the_bundle(tmp_path):
    files = {"../evil.py": b"", "/evil.py": b"", "a/../../evil.py": b"", "good.py": b"1"}
    data = {"x-1.0.data/purelib/lib.py": b"2", "x-1.0.data/scripts/run": b"", "x-1.0.data/purelib": b""}
    wheel = make_wheel(tmp_path, "x", "py3-none-any", files={**files, **data})
    assert {path for path in unpacked(wheel) if "dist-info" not in path} == {"good.py", "lib.py"}


def test_the_same_content_gives_the_same_archive(tmp_path, monkeypatch):
    write_archive(tmp_path / "a.mcpb", {"name": "x"}, {"b": b"2", "a": b"1"})
    write_archive(tmp_path / "b.mcpb", {"name": "x"}, {"a": b"1", "b": b"2"})
    assert (tmp_path / "a.mcpb").read_bytes() == (tmp_path / "b.mcpb").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.mcpb") as archive:
        assert archive.namelist() == ["a", "b", "manifest.json"]
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    write_archive(tmp_path / "c.mcpb", {"name": "x"}, {"a": b"1"})
    with zipfile.ZipFile(tmp_path / "c.mcpb") as archive:
        assert archive.infolist()[0].date_time == (2023, 11, 14, 22, 13, 20)


def test_a_place_that_cannot_be_written(tmp_path):
    with pytest.raises(UsageError, match="cannot be written"):
        write_archive(tmp_path / "missing" / "a.mcpb", {}, {})
