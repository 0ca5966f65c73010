"""The import graph of the package: rooms import downward only, and the lower ones touch nothing outside themselves."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "twopipes"

# A room is a module or a package directly under twopipes. A new one must be given a rank here.
RANKS = {
    "_cli": 8,
    "_tools": 7,
    "testing": 7,
    "_blocking": 6,
    "_server": 5,
    "_client": 5,
    "_trace": 4,
    "_channels": 3,
    "_process": 3,
    "_session": 2,
    "_protocol": 1,
    "_schema": 1,
    "_rules": 1,
    "_jsonrpc": 0,
    "_wire": 0,
    "settings": 0,
    "outcome": 0,
    "errors": 0,
    "_version": 0,
    "_error_text": 0,
    "_codes": 0,
}
# The ground floor is one room in a few files, which know each other in this order.
GROUND_FLOOR = ["_version", "_codes", "_error_text", "errors", "outcome", "settings", "_wire", "_jsonrpc"]
# The edges between neighbours, each in one direction: a child is made of pipes, and schemas and rules are about the protocol.
NEIGHBOURS = {("_process", "_channels"), ("_schema", "_protocol"), ("_rules", "_protocol")}
# The public modules that only hand out names of private ones.
DOORS = {"_lazy", "__init__", "__main__", "blocking", "channels", "process", "sansio", "trace", "types"}
# What loads their names when they are first used.
LOADER = "_lazy"
# No I/O, no clock, no task below the channels.
HIGHEST_WITHOUT_IO = 2
TOUCHES_THE_WORLD = {
    "asyncio",
    "concurrent",
    "fcntl",
    "io",
    "logging",
    "multiprocessing",
    "os",
    "pathlib",
    "queue",
    "select",
    "selectors",
    "shutil",
    "signal",
    "socket",
    "ssl",
    "subprocess",
    "tempfile",
    "threading",
    "time",
}
# Random numbers are drawn by the session alone, to seal what a client carries for it.
DRAWS_RANDOM_NUMBERS = {"hashlib", "hmac", "random", "secrets", "uuid"}
MAY_DRAW = {"_session"}


class Import(NamedTuple):
    """One import statement: where it stands and what it names."""

    file: str
    line: int
    room: str
    target: str  # the module, dotted, as `twopipes._wire` or `asyncio`
    is_immediate: bool  # it runs when the module is imported

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.room} imports {self.target}"


def imports_of(root: Path) -> Iterator[Import]:
    """Every import under a package, function-local ones and those for type checkers included."""
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        tree = ast.parse(path.read_text(encoding="utf-8"))
        immediate = set(immediate_nodes(tree))
        # The package that a relative import starts from.
        package = [root.name, *parts[:-1]]
        for node in ast.walk(tree):
            for target in targets_of(node, package, root):
                yield Import(str(path.relative_to(root)), node.lineno, parts[0], target, node in immediate)


def targets_of(node: ast.AST, package: list[str], root: Path) -> Iterator[str]:
    """The modules that one node imports, if it is an import; also the kind that is written as a call."""
    match node:
        case ast.Import():
            yield from (alias.name for alias in node.names)
        case ast.ImportFrom():
            start = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*start, node.module] if node.module else start)
            # `from twopipes import wire` names a room; `from twopipes import Limits` names the door.
            for alias in node.names:
                is_module = base == root.name and ((root / alias.name).is_dir() or (root / f"{alias.name}.py").is_file())
                yield f"{base}.{alias.name}" if is_module else base
        case ast.Call(func=ast.Name(id="__import__" | "import_module") | ast.Attribute(attr="import_module")):
            argument = node.args[0] if node.args else None
            yield argument.value if isinstance(argument, ast.Constant) and isinstance(argument.value, str) else "?"


def immediate_nodes(tree: ast.Module) -> Iterator[ast.AST]:
    """What runs when a module is imported: everything outside functions and blocks for type checkers."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}:
            waiting.extend(node.orelse)
            continue
        waiting.extend(ast.iter_child_nodes(node))


def violations(root: Path) -> list[str]:
    """What is wrong with the import graph of a package, in sentences."""
    found = [f"{each}: this module has no rank" for each in sorted(rooms_under(root) - RANKS.keys() - DOORS)]
    for each in imports_of(root):
        if each.room in DOORS:
            is_ours = each.target.partition(".")[0] == root.name and each.target != f"{root.name}.{LOADER}"
            if each.is_immediate and is_ours and each.room == "__init__":
                found.append(f"{each} at once; only lazily")
        elif each.room in RANKS:
            found += [f"{each}: {why}" for why in faults(each, root.name)]
    return found


def rooms_under(root: Path) -> set[str]:
    packages = {path.parent.name for path in root.glob("*/*.py")}
    return packages | {path.stem for path in root.glob("*.py")}


def faults(found: Import, package: str) -> Iterator[str]:
    """Why one import of a room is not allowed; nothing if it is."""
    top, _, rest = found.target.partition(".")
    if top == package:
        yield from faults_of_the_direction(found.room, rest.partition(".")[0])
    elif RANKS[found.room] <= HIGHEST_WITHOUT_IO:
        if top in TOUCHES_THE_WORLD:
            yield "this room does no I/O and reads no clock"
        elif top in DRAWS_RANDOM_NUMBERS and found.room not in MAY_DRAW:
            yield "this room draws no random numbers"
        elif top == "?":
            yield "nobody can tell what this import is"


def faults_of_the_direction(room: str, other: str) -> Iterator[str]:
    if other in {room, LOADER}:
        return
    if not other:
        yield "a room does not go through the front door"
    elif other not in RANKS:
        yield "that module has no rank"
    elif RANKS[other] > RANKS[room]:
        yield "upward"
    elif RANKS[other] == RANKS[room] and not (
        (room, other) in NEIGHBOURS
        or (room in GROUND_FLOOR and other in GROUND_FLOOR and GROUND_FLOOR.index(other) < GROUND_FLOOR.index(room))
    ):
        yield "sideways"


def test_rooms_import_downward_only():
    assert violations(SOURCE) == []


def test_the_ground_floor_is_there_and_is_seen():
    """Against a test that passes because it looked at the wrong folder."""
    assert set(GROUND_FLOOR) <= rooms_under(SOURCE)
    seen = {(each.room, each.target) for each in imports_of(SOURCE)}
    assert {("_jsonrpc", "twopipes._wire"), ("_wire", "twopipes.settings"), ("_wire", "msgspec")} <= seen


# The checker itself, on a house of cards


@pytest.fixture
def house(tmp_path):
    """Builds a package from file names and contents, and returns what is wrong with it."""

    def build(**files: str) -> list[str]:
        root = tmp_path / "twopipes"
        for name, text in files.items():
            path = root / (name.replace("__of__", "/") + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return violations(root)

    return build


@pytest.mark.parametrize(
    "text",
    [
        "import twopipes._session.eras",
        "import twopipes._session as s",
        "from twopipes._session import eras",
        "from twopipes import _session",
        "from twopipes._session.eras import OPENING",
        "from .._session import eras",
        "from .. import _session",
        "def late():\n    from twopipes._session import eras",
        "async def late():\n    if True:\n        import twopipes._session",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from twopipes._session import eras",
        "try:\n    import twopipes._session\nexcept ImportError:\n    pass",
        "class Lazy:\n    def door(self):\n        from twopipes._session import eras",
        "import importlib\neras = importlib.import_module('twopipes._session.eras')",
        "eras = __import__('twopipes._session')",
    ],
)
def test_an_upward_import_is_found_however_it_is_written(house, text):
    (found,) = house(_protocol__of__dialect=text, _session__of__eras="")
    assert found.startswith("_protocol/dialect.py:")
    assert found.endswith(": upward")


@pytest.mark.parametrize(
    ("room", "other", "why"),
    [
        ("_server__of__app", "twopipes._client.cache", "sideways"),
        ("_channels__of__pipes", "twopipes._process.child", "sideways"),
        ("_tools__of__rules", "twopipes.testing", "sideways"),
        ("_wire", "twopipes._jsonrpc", "sideways"),
        ("errors", "twopipes.settings", "sideways"),
        ("_wire", "twopipes._protocol.types", "upward"),
        ("_trace__of__record", "twopipes._server", "upward"),
        ("_blocking", "twopipes._cli", "upward"),
        ("_session__of__eras", "twopipes.attic", "that module has no rank"),
        ("_session__of__eras", "twopipes", "a room does not go through the front door"),
    ],
)
def test_a_forbidden_edge_has_a_name(house, room, other, why):
    (found,) = house(**{room: f"import {other}"})
    assert found.endswith(f"imports {other}: {why}")


@pytest.mark.parametrize(
    ("room", "text"),
    [
        ("_jsonrpc", "from twopipes._wire import LineRejected\nfrom twopipes.errors import RequestId"),
        ("_protocol__of__dialect", "from twopipes._protocol.types import Tool\nfrom . import types\nfrom .types import Tool"),
        ("_session__of__state_token", "import hmac, hashlib, secrets, base64\nfrom twopipes._protocol import types"),
        ("_channels__of__stdio", "import os, asyncio\nfrom twopipes._wire import LineDecoder"),
        ("_process__of__child", "import subprocess\nfrom twopipes._channels.pipes import PipeChannel"),
        ("_server__of__serve", "from twopipes._channels.stdio import stdio\nfrom twopipes._trace import record"),
        ("_cli__of__main", "import twopipes._tools.check, twopipes.testing, twopipes.errors"),
        ("__main__", "from twopipes._cli import main"),
        ("__init__", "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    from twopipes.errors import McpError"),
        (
            "__init__",
            "def __getattr__(name):\n    from importlib import import_module\n    return import_module('twopipes.' + name)",
        ),
    ],
)
def test_what_is_allowed_is_let_through(house, room, text):
    assert house(**{room: text}) == []


@pytest.mark.parametrize("module", ["asyncio", "socket", "os", "os.path", "time", "threading", "subprocess", "select", "signal"])
@pytest.mark.parametrize("room", ["_wire", "_protocol__of__types", "_session__of__ledger"])
def test_the_lower_rooms_touch_nothing(house, room, module):
    (found,) = house(**{room: f"def late():\n    import {module}"})
    assert found.endswith("this room does no I/O and reads no clock")


@pytest.mark.parametrize("module", ["secrets", "random", "uuid"])
def test_only_the_session_draws_random_numbers(house, module):
    (found,) = house(_protocol__of__types=f"from {module} import *", _session__of__inputs=f"import {module}")
    assert found.startswith("_protocol/types.py")


def test_an_import_that_nobody_can_read_is_not_trusted_below(house):
    (found,) = house(_session__of__eras="from importlib import import_module\nimport_module('twopi' + 'pes.server')")
    assert found.endswith("nobody can tell what this import is")


def test_a_room_without_a_rank_is_found(house):
    assert house(utils="", attic__of__trunk="") == ["attic: this module has no rank", "utils: this module has no rank"]


def test_the_front_door_opens_lazily(house):
    (found,) = house(__init__="from twopipes.errors import McpError")
    assert found.endswith("only lazily")
