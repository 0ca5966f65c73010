"""What is packed: a project with a pyproject.toml, or one Python file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from twopipes._tools.install.server_name import declared_name
from twopipes._tools.usage import UsageError

_SKIPPED_FOLDERS = {"__pycache__", "node_modules"}
_SKIPPED_ENDINGS = {".pyc", ".pyo"}


class UserOption(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One entry of ``user_config`` in a manifest: what a host asks its user before it starts the server."""

    type: Literal["string", "number", "boolean", "directory", "file"]
    title: str
    description: str
    required: bool | None = None
    default: str | float | bool | list[str] | None = None
    multiple: bool | None = None
    sensitive: bool | None = None
    min: float | None = None
    max: float | None = None


class PackSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """The table ``[tool.twopipes.pack]`` of a pyproject.toml."""

    entry: str | None = None  # module:function; by default the script of the project
    display_name: str | None = None
    long_description: str | None = None
    icon: str | None = None
    arguments: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    user_config: Mapping[str, UserOption] = field(default_factory=dict)
    include: Sequence[str] = ()
    requirements: Sequence[str] = ()
    registry_name: str | None = None  # such as io.github.ada/weather
    bundle_url: str | None = None  # where the bundle is published; {version} is filled in
    image: str | None = None  # such as ghcr.io/ada/weather:{version}


class PackSource(Struct, frozen=True, kw_only=True):
    """A server to pack, and what is known about it before it has been started."""

    folder: Path  # paths of the settings are relative to it
    name: str
    version: str | None
    description: str | None
    author: Mapping[str, str] | None
    module: str  # the module that is run, or the path of the file in the bundle
    function: str | None  # the function to call; None for a file
    files: Mapping[str, Path]  # by their paths in the bundle, below server/app
    requirements: Sequence[str]
    settings: PackSettings
    project: Mapping[str, Any] = field(default_factory=dict)  # the table [project]

    @property
    def is_project(self) -> bool:
        """Whether it has a pyproject.toml."""
        return bool(self.project)


def read_source(path: Path) -> PackSource:
    """Return what is packed for a path: a folder with a pyproject.toml, or a Python file."""
    if path.is_dir():
        return _project(path)
    if not path.is_file():
        raise UsageError(f"{path} does not exist; give a Python file, or a folder with a pyproject.toml")
    if path.suffix != ".py":
        raise UsageError(f"{path} is not a Python file; give one, or a folder with a pyproject.toml")
    return PackSource(
        folder=path.parent,
        name=declared_name([str(path)], ".") or path.stem,
        version=None,
        description=None,
        author=None,
        module=path.name,
        function=None,
        files={path.name: path},
        requirements=("twopipes",),
        settings=PackSettings(),
    )


def included(source: PackSource, paths: Sequence[str]) -> dict[str, Path]:
    """Return files to add, by their paths in the bundle. Paths are relative to the folder of the source, and stay in it."""
    found: dict[str, Path] = {}
    root = source.folder.resolve()
    for text in paths:
        path = (root / text).resolve()
        if not path.exists():
            raise UsageError(f"{text} does not exist in {source.folder}, so it cannot be included")
        if root not in (path, *path.parents):
            raise UsageError(f"{text} is outside {source.folder}, so it cannot be included; copy it there")
        found.update(_files(path, path.relative_to(root).as_posix()))
    return found


def _project(folder: Path) -> PackSource:
    table = _read_toml(folder / "pyproject.toml")
    project = table.get("project")
    if not isinstance(project, dict) or not isinstance(project.get("name"), str):
        raise UsageError(f"{folder / 'pyproject.toml'} has no [project] with a name; add it, or pack a Python file")
    settings = _settings(table, folder)
    module, function = _entry(project, settings)
    return PackSource(
        folder=folder,
        name=project["name"],
        version=project.get("version"),
        description=project.get("description"),
        author=_author(project),
        module=module,
        function=function,
        files=_package(folder, module.partition(".")[0]),
        requirements=(*project.get("dependencies", ()), *settings.requirements),
        settings=settings,
        project=project,
    )


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{file} does not exist; give the folder of a project, or a Python file") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error


def _settings(table: Mapping[str, Any], folder: Path) -> PackSettings:
    given = table.get("tool", {}).get("twopipes", {}).get("pack", {})
    try:
        return msgspec.convert(given, PackSettings)
    except msgspec.ValidationError as error:
        raise UsageError(f"{folder / 'pyproject.toml'}: [tool.twopipes.pack] is not valid: {error}") from error


def _entry(project: Mapping[str, Any], settings: PackSettings) -> tuple[str, str]:
    """Return the module and the function that start the server."""
    scripts = project.get("scripts", {})
    chosen = settings.entry or scripts.get(project["name"]) or (next(iter(scripts.values())) if len(scripts) == 1 else None)
    if chosen is None:
        raise UsageError(
            f"{project['name']} has {len(scripts)} scripts; name the one that starts the server: "
            'entry = "package.server:main" in [tool.twopipes.pack]'
        )
    module, colon, function = chosen.partition(":")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), *function.split("."))):
        raise UsageError(f"the entry {chosen!r} is not module:function, such as package.server:main")
    return module, function


def _author(project: Mapping[str, Any]) -> dict[str, str] | None:
    for author in project.get("authors", ()):
        if author.get("name"):
            return {name: author[name] for name in ("name", "email") if author.get(name)}
    return None


def _package(folder: Path, name: str) -> dict[str, Path]:
    for place in (folder / "src", folder):
        if (place / name / "__init__.py").is_file():
            return _files(place / name, name)
        if (place / f"{name}.py").is_file():
            return {f"{name}.py": place / f"{name}.py"}
    raise UsageError(f"the package {name} is neither in {folder / 'src'} nor in {folder}")


def _files(path: Path, name: str) -> dict[str, Path]:
    if path.is_file():
        return {name: path}
    return {str(PurePosixPath(name) / each.relative_to(path).as_posix()): each for each in walk(path)}


def walk(folder: Path) -> Iterator[Path]:
    """Yield the files in a folder that belong in a bundle, in a fixed order."""
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        hidden = any(part.startswith(".") or part in _SKIPPED_FOLDERS for part in parts)
        if path.is_file() and not hidden and path.suffix not in _SKIPPED_ENDINGS:
            yield path
