"""Put a bundle together, try it, and write the archive."""

from __future__ import annotations

import json
import os
import pprint
import sys
import time
import zipfile
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from twopipes._blocking.connect import connect
from twopipes._tools.pack.manifest import Learned
from twopipes._tools.pack.source import PackSource, included, walk
from twopipes._tools.pack.wheels import Wheels, unpacked
from twopipes._tools.usage import UsageError
from twopipes.errors import TwopipesError
from twopipes.settings import Timeouts

# The earliest time that a zip archive can have. The same input gives the same archive.
_EPOCH = (1980, 1, 1, 0, 0, 0)
_FILE_MODE = 0o100644
_OLDEST_PYTHON = (3, 11)
# Seconds until the packed server must have answered. A first start compiles every file.
_START_SECONDS = 60.0

Files = dict[str, bytes]


def files_of(source: PackSource, wheels: Wheels) -> Files:
    """Return the files of a bundle, without its manifest."""
    builds, native = _native(wheels)
    files: Files = {"server/main.py": _bootstrap(source, builds).encode()}
    for path, file in {**source.files, **included(source, source.settings.include)}.items():
        files[f"server/app/{path}"] = file.read_bytes()
    for path, data in {**_own_package(), **_merged(wheels.pure)}.items():
        files[f"server/lib/{path}"] = data
    if source.settings.icon and "://" not in source.settings.icon:
        files.update((path, file.read_bytes()) for path, file in included(source, [source.settings.icon]).items())
    return {**files, **native}


def _native(wheels: Wheels) -> tuple[dict[str, list[str]], Files]:
    """Return the folders of each build, and the files in them. A wheel that several builds share is unpacked once."""
    builds: dict[str, list[str]] = {}
    places: dict[str, str] = {}  # the folder of each wheel
    files: Files = {}
    for build, found in wheels.native.items():
        for wheel in found:
            if wheel.name not in places:
                # Short names: paths on Windows have a limit, and a host unpacks below long ones.
                places[wheel.name] = f"{build}/{wheel.name.partition('-')[0]}"
                files.update((f"server/native/{places[wheel.name]}/{path}", data) for path, data in unpacked(wheel).items())
            builds.setdefault(build, []).append(places[wheel.name])
    return builds, files


def _merged(wheels: Sequence[Path]) -> Files:
    files: Files = {}
    for wheel in wheels:
        files.update(unpacked(wheel))
    return files


def _own_package() -> Files:
    """Return the files of the running twopipes, so that the bundle has the version that it was tested with."""
    folder = Path(str(resources.files("twopipes")))
    return {f"twopipes/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in walk(folder)}


def _bootstrap(source: PackSource, builds: Mapping[str, Sequence[str]]) -> str:
    template = resources.files("twopipes._tools.pack") / "template" / "main.py.txt"
    if source.function is None:
        start = [
            "    from twopipes._cli import main as twopipes",
            "",
            f"    sys.exit(twopipes(['run', os.path.join(here, 'app', {source.module!r}), '--', *sys.argv[1:]]))",
        ]
    else:
        name, _, rest = source.function.partition(".")
        start = [f"    from {source.module} import {name}", "", f"    sys.exit({name}{'.' + rest if rest else ''}())"]
    text = template.read_text(encoding="utf-8")
    for word, value in (
        ("@builds@", pprint.pformat(dict(builds), width=110, sort_dicts=True)),
        ("@needs@", repr(_OLDEST_PYTHON)),
        ("@start@", "\n".join(start)),
    ):
        text = text.replace(word, value)
    return text


def unpack_into(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of a bundle into a folder, as a host does."""
    for path, data in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


def try_server(source: PackSource, folder: Path) -> Learned:
    """Start the server of an unpacked bundle with the running Python, and return what it says about itself.

    Raises:
        UsageError: it did not start, or did not answer.
    """
    options = source.settings.user_config
    values = {f"${{user_config.{name}}}": _example(option, folder) for name, option in options.items()}
    values["${__dirname}"] = str(folder)
    words = [_filled(word, values) for word in source.settings.arguments]
    env = {name: _filled(value, values) for name, value in source.settings.env.items()}
    # With -I and -S nothing that is installed here hides that a package is missing from the bundle.
    command = [sys.executable, "-I", "-S", "-B", str(folder / "server" / "main.py"), *words]
    try:
        with connect(command[0], *command[1:], env=env, cwd=str(folder), timeouts=Timeouts(connect=_START_SECONDS)) as client:
            info = client.server_info
            has = client.capabilities
            tools = client.list_tools() if has.tools is not None else []
            return Learned(
                version=info.version if info else "",
                title=info.title if info else None,
                tools=[(tool.name, _first_paragraph(tool.description)) for tool in tools],
                has_prompts=has.prompts is not None,
            )
    except TwopipesError as error:
        raise UsageError(f"the packed server does not work: {error}; --no-start packs it without a test") from error


def _example(option: Any, folder: Path) -> str:
    """Return a value that a user could give for an option."""
    if option.default is not None and "${" not in str(option.default):
        return str(option.default[0] if isinstance(option.default, list) and option.default else option.default)
    examples = {"directory": str(folder), "file": str(folder / "server" / "main.py"), "number": "1", "boolean": "true"}
    return examples.get(option.type, "example")


def _filled(text: str, values: Mapping[str, str]) -> str:
    for variable, value in values.items():
        text = text.replace(variable, value)
    return text


def _first_paragraph(text: str | None) -> str | None:
    return " ".join(text.split("\n\n")[0].split()) if text else None


def write_archive(file: Path, manifest: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    """Write a bundle. The same content gives the same bytes; SOURCE_DATE_EPOCH sets its time."""
    everything = {"manifest.json": (json.dumps(manifest, indent=2, ensure_ascii=False) + "\n").encode(), **files}
    moment = _moment()
    partial = file.with_name(f"{file.name}.part")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for path in sorted(everything):
                entry = zipfile.ZipInfo(path, moment)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.create_system = 3  # the same on Windows
                entry.external_attr = _FILE_MODE << 16
                archive.writestr(entry, everything[path], compresslevel=9)
        partial.replace(file)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)


def _moment() -> tuple[int, int, int, int, int, int]:
    text = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not text.isdecimal():
        return _EPOCH
    return max(_EPOCH, time.gmtime(int(text))[:6])
