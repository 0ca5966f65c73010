"""Wheels for the tests of `twopipes pack`: made up ones, and those of installed packages. pip finds them without a registry."""

import base64
import hashlib
import os
import platform
import sys
import sysconfig
import zipfile
from importlib import metadata
from pathlib import Path

from twopipes._tools.pack.wheels import PYTHONS, SYSTEMS

RUNNING_PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
RUNNING_SYSTEM = sysconfig.get_platform() if sys.platform == "win32" else f"linux-gnu-{platform.machine()}"
_HAS_WHEELS = sys.platform == "win32" or (sys.platform == "linux" and platform.libc_ver()[0] == "glibc")
# Packing for the running Python alone, as far as wheels of installed packages allow it.
CAN_PACK = _HAS_WHEELS and RUNNING_SYSTEM in SYSTEMS and RUNNING_PYTHON in PYTHONS
FOR_THIS_PYTHON = ["--python", RUNNING_PYTHON, "--system", RUNNING_SYSTEM]


def make_wheel(folder: Path, name: str, tag: str, *, version="1.0", files=None, requires=()) -> Path:
    """Write a wheel with these files; by default it contains one module that holds its own tag."""
    files = files or {f"{name}.py": f"TAG = {tag!r}\n".encode()}
    about = f"{name}-{version}.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {each}" for each in requires)]
    files = {
        **files,
        f"{about}/METADATA": ("\n".join(lines) + "\n\n").encode(),
        f"{about}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n".encode(),
    }
    return _write(folder / f"{name}-{version}-{tag}.whl", about, files)


def wheel_of_installed(folder: Path, name: str) -> Path:
    """Write the wheel that an installed package came from."""
    found = metadata.distribution(name)
    about = next(each.parent.as_posix() for each in found.files if each.name == "WHEEL")
    tags = [line.partition(": ")[2] for line in (found.read_text("WHEEL") or "").splitlines() if line.startswith("Tag: ")]
    files = {
        each.as_posix(): each.read_binary()
        for each in found.files
        if ".." not in each.parts
        and each.suffix != ".pyc"
        and each.name not in {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}
    }
    return _write(folder / f"{name}-{found.version}-{tags[0]}.whl", about, files)


def _write(file: Path, about: str, files: dict[str, bytes]) -> Path:
    record = [f"{path},sha256={_digest(data)},{len(data)}" for path, data in files.items()]
    with zipfile.ZipFile(file, "w") as archive:
        for path, data in files.items():
            archive.writestr(path, data)
        archive.writestr(f"{about}/RECORD", "\n".join([*record, f"{about}/RECORD,,", ""]))
    return file


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def only_these_wheels(monkeypatch, folder: Path) -> None:
    """Let pip look only in a folder."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
