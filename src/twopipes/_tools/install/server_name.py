"""Find the name of a server in its source code, without importing or running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from twopipes._tools.usage import split_target

# The server classes of twopipes and of the two other common Python libraries.
_SERVER_CLASSES = {"Server", "FastMCP", "MCPServer"}
# Longer files, in bytes, are not read.
_MAX_SIZE = 1024 * 1024
# Options of runners that change the folder.
_FOLDER_OPTIONS = {"--directory", "-C"}


def declared_name(words: Sequence[str], folder: str) -> str | None:
    """Return the name in ``Server("name")``, in the file that a command runs; ``None`` if it is not found."""
    for file, variable in _sources(words, Path(folder)):
        if (name := _name_in(file, variable)) is not None:
            return name
    return None


def _sources(words: Sequence[str], folder: Path) -> Iterator[tuple[Path, str | None]]:
    """Yield the files that a command may run, and the variable that it names."""
    before = ""
    for word in words:
        path, variable = split_target(word)
        if before in _FOLDER_OPTIONS:
            folder = folder / word
        elif before == "-m" and word != "twopipes":
            yield from ((file, None) for file in _module(word, folder))
            return
        elif path.endswith(".py") and not word.startswith("-"):
            yield folder / path, variable or None
            return
        before = word


def _module(name: str, folder: Path) -> Iterator[Path]:
    steps = name.split(".")
    for top in (folder, folder / "src"):
        module = top.joinpath(*steps)
        yield module.with_name(f"{module.name}.py")
        yield from (module / file for file in ("__main__.py", "server.py", "__init__.py"))


def _name_in(file: Path, variable: str | None) -> str | None:
    try:
        if file.stat().st_size > _MAX_SIZE:
            return None
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    texts: dict[str, str] = {}
    names: dict[str, str] = {}  # by the variable that the server is assigned to, in the order of the file
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            known = [target.id for target in targets if isinstance(target, ast.Name)]
            if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                texts |= dict.fromkeys(known, node.value.value)
            elif isinstance(node.value, ast.Call) and (name := _name_of(node.value, texts)) is not None:
                names |= {target: name for target in known if target not in names}
    return names.get(variable) if variable is not None else next(iter(names.values()), None)


def _name_of(call: ast.Call, texts: dict[str, str]) -> str | None:
    class_name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", None)
    if class_name not in _SERVER_CLASSES:
        return None
    given = call.args[0] if call.args else next((keyword.value for keyword in call.keywords if keyword.arg == "name"), None)
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        return given.value
    return texts.get(given.id) if isinstance(given, ast.Name) else None
