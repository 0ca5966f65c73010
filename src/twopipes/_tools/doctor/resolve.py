"""Looks up a command: PATH, symbolic links, the interpreter of a script, and other places where it may be."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from twopipes._process.command import ServerCommand
from twopipes._process.lookup import look_up
from twopipes._tools.doctor.observations import Layer, Place, Resolution, Shebang
from twopipes._tools.doctor.wrappers import layers_of, plain_name

# The PATH of a program started from a desktop, without the startup files of a shell or a virtual environment.
_DESKTOP_PATH = {"/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/local/sbin"}
_MAX_LINKS = 10
_MAX_SIMILAR = 3
_HEAD = 256
# Folders of user-installed tools, relative to the home folder.
_HOME_PLACES = (
    (".local/bin", "the user's own programs"),
    (".cargo/bin", "Rust's programs"),
    (".bun/bin", "Bun's programs"),
    (".deno/bin", "Deno's programs"),
    (".volta/bin", "Volta's programs"),
    ("go/bin", "Go's programs"),
    (".pyenv/shims", "pyenv's programs"),
    (".asdf/shims", "asdf's programs"),
)
_SYSTEM_PLACES = (("/usr/local/bin", "/usr/local"), ("/opt/homebrew/bin", "Homebrew"), ("/snap/bin", "snap"))
_VARIABLE = re.compile(r"\$\{?[A-Z_][A-Z0-9_]+\}?|%[A-Z_][A-Z0-9_]+%")
_BINARY = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"MZ")


def resolve(command: ServerCommand) -> Resolution:
    """Find the file that the command executes. Nothing is started."""
    environment, folder = command.child_environment(), command.folder()
    argv = tuple(command.argv)
    looked = look_up(argv[0], environment, folder)
    layers = layers_of(argv)
    found = looked.found
    links = _links(found) if found else ()
    file = links[-1] if links else found or ""
    head = _head(file)
    shebang = _shebang(head, environment, folder)
    if shebang is not None and not any(layer.runtime for layer in layers):
        layers = (*layers, *layers_of([shebang.interpreter.removesuffix("\\r"), file]))
    # After `sh -c` or `python -c`, a word is source code, where a dollar sign may be intended.
    has_code = any(word.startswith("-") and not word.startswith("--") and word.endswith(("c", "e")) for word in argv)
    is_on_path = bool(found and looked.folders) and sys.platform != "win32"
    return Resolution(
        argv=argv,
        folder=folder,
        folder_exists=Path(folder).is_dir(),
        searched=looked.folders,
        found=found,
        unfit=looked.unfit,
        unfit_is_folder=looked.unfit is not None and Path(looked.unfit).is_dir(),
        links=links,
        shebang=shebang,
        is_program=not found or sys.platform == "win32" or shebang is not None or head.startswith(_BINARY),
        layers=layers,
        script_missing=_missing_script(layers, folder),
        similar=() if found or looked.unfit else _similar(argv[0], environment, looked.folders, folder),
        elsewhere=() if found else tuple(_elsewhere(argv[0], folder)),
        beyond_host_path=is_on_path and str(Path(found or "").parent) not in _DESKTOP_PATH,
        not_expanded=tuple(word for word in argv if word.startswith("~/") or (_VARIABLE.search(word) and not has_code)),
    )


def _links(path: str) -> tuple[str, ...]:
    found: list[str] = []
    here = Path(path)
    while here.is_symlink() and len(found) < _MAX_LINKS:
        here = Path(os.path.normpath(here.parent / here.readlink()))
        found.append(str(here))
    return tuple(found)


def _head(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return file.read(_HEAD)
    except OSError:
        return b""


def _shebang(head: bytes, environment: Mapping[str, str], folder: str) -> Shebang | None:
    if not head.startswith(b"#!"):
        return None
    line = head.split(b"\n", 1)[0].decode("utf-8", "replace")
    words = line[2:].rstrip("\r").split()
    if not words:
        return None
    interpreter, found = words[0], words[0] if os.access(words[0], os.X_OK) else None
    if found and plain_name(words[0]) == "env":
        # env searches PATH for the name after it.
        names = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        if names:
            interpreter = names[0]
            found = look_up(names[0], environment, folder).found
    if line.endswith("\r"):
        # The system treats the carriage return as a part of the name.
        found = None
        interpreter += "\\r"
    return Shebang(line=line.rstrip("\r"), interpreter=interpreter, found=found)


def _missing_script(layers: tuple[Layer, ...], folder: str) -> str | None:
    for layer in layers:
        # With uv and similar tools, the script may be in a folder that an option names.
        if layer.script and not any(flag.startswith(("--directory", "--project")) for each in layers for flag in each.flags):
            path = Path(folder) / layer.script
            if not path.exists() and not layer.script.startswith(("~", "$", "-", "npm:", "jsr:", "http:", "https:")):
                return str(path)
    return None


def _similar(name: str, environment: Mapping[str, str], folders: tuple[str, ...], folder: str) -> tuple[str, ...]:
    """Return commands on PATH with a similar name; or the first word, if the whole command was written as one word."""
    first = name.split(maxsplit=1)[0] if len(name.split()) > 1 else ""
    if first and look_up(first, environment, folder).found:
        return (first,)
    names: set[str] = set()
    where = folders or (str((Path(folder) / name).parent),)
    for each in where:
        try:
            names.update(entry.name for entry in os.scandir(each) if entry.is_file() and os.access(entry.path, os.X_OK))
        except OSError:
            continue
    wanted = plain_name(name)
    # `python` if only `python3` exists, `pip` if only `pip3` exists.
    numbered = [each for each in (f"{wanted}3", wanted.rstrip("0123456789.")) if each in names and each != wanted]
    close = difflib.get_close_matches(wanted, sorted(names), n=_MAX_SIMILAR, cutoff=0.75)
    return tuple(dict.fromkeys([*numbered, *close]))[:_MAX_SIMILAR]


def _elsewhere(name: str, folder: str) -> Iterator[Place]:
    wanted = plain_name(name)
    if wanted in {"", ".", ".."}:
        return
    seen: set[str] = set()
    for place, where in _places(folder):
        path = str(place / wanted)
        if path not in seen and os.access(path, os.X_OK) and not place.joinpath(wanted).is_dir():
            seen.add(path)
            yield Place(path, where)


def _places(folder: str) -> Iterator[tuple[Path, str]]:
    here = Path(folder)
    for each in (here, *list(here.parents)[:3]):
        for environment in (".venv", "venv", "env"):
            yield each / environment / "bin", "a virtual environment"
            yield each / environment / "Scripts", "a virtual environment"
        yield each / "node_modules" / ".bin", "the programs of a package.json"
    yield here, "the folder it would start in"
    if "VIRTUAL_ENV" in os.environ:
        yield Path(os.environ["VIRTUAL_ENV"]) / "bin", "your active virtual environment"
    yield Path(sys.executable).parent, "the environment that twopipes is installed in"
    for each_folder in os.environ.get("PATH", "").split(os.pathsep):
        if each_folder:
            yield Path(each_folder), "on your PATH, which is not the server's"
    home = Path.home()
    for below, where in _HOME_PLACES:
        yield home / below, where
    for below, where in _SYSTEM_PLACES:
        yield Path(below), where
    versions = home / ".nvm" / "versions" / "node"
    if versions.is_dir():
        for version in sorted(versions.iterdir(), reverse=True):
            yield version / "bin", "nvm's programs"
