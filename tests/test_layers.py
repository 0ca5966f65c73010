"""The import graph: packages import only from lower ranks, and the lower ranks do no I/O."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "twopipes"

# Every module or package directly under twopipes has a rank. A new one must be added here.
RANKS = {
    "_cli": 8,
    "_tools": 7,
    "testing": 7,
    "_gateway": 6,
    "_host": 6,
    "_blocking": 6,
    "_server": 5,
    "_client": 5,
    "_trace": 4,
    "_http": 4,
    "_connection": 4,
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
    "_response_errors": 0,
    "errors": 0,
    "_version": 0,
    "_error_text": 0,
    "_codes": 0,
}
# The base modules, all of rank 0. Each may import those before it.
BASE_MODULES = ["_version", "_codes", "_error_text", "_response_errors", "errors", "outcome", "settings", "_wire", "_jsonrpc"]
# Allowed imports between packages of the same rank: a child has pipes, schemas and rules describe the protocol, and a hub and a
# group without await use the configuration of hosts.
SAME_RANK = {
    ("_process", "_channels"),
    ("_schema", "_protocol"),
    ("_rules", "_protocol"),
    ("_gateway", "_host"),
    ("_blocking", "_host"),
}
# The public modules that only re-export names of private ones.
PUBLIC_MODULES = {"_lazy", "__init__", "__main__", "blocking", "channels", "host", "http", "process", "sansio", "trace", "types"}
# Imports the re-exported names when they are first used.
LOADER = "_lazy"
# No I/O, no clock and no task below the channels.
HIGHEST_WITHOUT_IO = 2
IO_MODULES = {
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
# Only the session uses random numbers and digests, to seal the state that a client carries.
RANDOM_MODULES = {"hashlib", "hmac", "random", "secrets", "uuid"}
MAY_USE_RANDOM = {"_session"}


class Import(NamedTuple):
    """One import statement: its place and its target."""

    file: str
    line: int
    package: str
    target: str  # the module, dotted, as `twopipes._wire` or `asyncio`
    is_immediate: bool  # it runs when the module is imported

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.package} imports {self.target}"


def imports_of(root: Path) -> Iterator[Import]:
    """Yield every import under a package, including function-local ones and those for type checkers."""
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        tree = ast.parse(path.read_text(encoding="utf-8"))
        immediate = set(immediate_nodes(tree))
        # The package that a relative import starts from.
        package = [root.name, *parts[:-1]]
        for node in ast.walk(tree):
            for target in targets_of(node, package, root):
                yield Import(path.relative_to(root).as_posix(), node.lineno, parts[0], target, node in immediate)


def targets_of(node: ast.AST, package: list[str], root: Path) -> Iterator[str]:
    """Yield the modules that a node imports, including imports written as a call."""
    match node:
        case ast.Import():
            yield from (alias.name for alias in node.names)
        case ast.ImportFrom():
            start = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*start, node.module] if node.module else start)
            # `from twopipes import _wire` names a module; `from twopipes import Limits` names the package itself.
            for alias in node.names:
                is_module = base == root.name and ((root / alias.name).is_dir() or (root / f"{alias.name}.py").is_file())
                yield f"{base}.{alias.name}" if is_module else base
        case ast.Call(func=ast.Name(id="__import__" | "import_module") | ast.Attribute(attr="import_module")):
            argument = node.args[0] if node.args else None
            yield argument.value if isinstance(argument, ast.Constant) and isinstance(argument.value, str) else "?"


def immediate_nodes(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield what runs when a module is imported: everything outside functions and blocks for type checkers."""
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
    """Describe every forbidden import of a package."""
    found = [f"{each}: this module has no rank" for each in sorted(packages_under(root) - RANKS.keys() - PUBLIC_MODULES)]
    for each in imports_of(root):
        if each.package in PUBLIC_MODULES:
            is_ours = each.target.partition(".")[0] == root.name and each.target != f"{root.name}.{LOADER}"
            if each.is_immediate and is_ours and each.package == "__init__":
                found.append(f"{each} at once; only lazily")
        elif each.package in RANKS:
            found += [f"{each}: {why}" for why in faults(each, root.name)]
    return found


def packages_under(root: Path) -> set[str]:
    packages = {path.parent.name for path in root.glob("*/*.py")}
    return packages | {path.stem for path in root.glob("*.py")}


def faults(found: Import, root: str) -> Iterator[str]:
    """Yield the reasons why an import is forbidden."""
    top, _, rest = found.target.partition(".")
    if top == root:
        yield from direction_faults(found.package, rest.partition(".")[0])
    elif RANKS[found.package] <= HIGHEST_WITHOUT_IO:
        if top in IO_MODULES:
            yield "this package does no I/O and reads no clock"
        elif top in RANDOM_MODULES and found.package not in MAY_USE_RANDOM:
            yield "this package uses no random numbers"
        elif top == "?":
            yield "the target of this import is unknown"


def direction_faults(package: str, other: str) -> Iterator[str]:
    if other in {package, LOADER}:
        return
    if not other:
        yield "a private package does not import the public one"
    elif other not in RANKS:
        yield "that module has no rank"
    elif RANKS[other] > RANKS[package]:
        yield "upward"
    elif RANKS[other] == RANKS[package] and not (
        (package, other) in SAME_RANK
        or (package in BASE_MODULES and other in BASE_MODULES and BASE_MODULES.index(other) < BASE_MODULES.index(package))
    ):
        yield "sideways"


def test_packages_import_only_from_lower_ranks():
    assert violations(SOURCE) == []


def test_the_base_modules_exist_and_are_checked():
    """Guards against a test that passes because it looked at the wrong folder."""
    assert set(BASE_MODULES) <= packages_under(SOURCE)
    seen = {(each.package, each.target) for each in imports_of(SOURCE)}
    assert {("_jsonrpc", "twopipes._wire"), ("_wire", "twopipes.settings"), ("_wire", "msgspec")} <= seen


# The checker itself, on a sample package


@pytest.fixture
def sample(tmp_path):
    """Build a package from file names and contents, and return its violations."""

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
        "class Lazy:\n    def load(self):\n        from twopipes._session import eras",
        "import importlib\neras = importlib.import_module('twopipes._session.eras')",
        "eras = __import__('twopipes._session')",
    ],
)
def test_an_upward_import_is_found_however_it_is_written(sample, text):
    (found,) = sample(_protocol__of__dialect=text, _session__of__eras="")
    assert found.startswith("_protocol/dialect.py:")
    assert found.endswith(": upward")


@pytest.mark.parametrize(
    ("package", "other", "why"),
    [
        ("_server__of__app", "twopipes._client.cache", "sideways"),
        ("_channels__of__pipes", "twopipes._process.child", "sideways"),
        ("_tools__of__rules", "twopipes.testing", "sideways"),
        ("_wire", "twopipes._jsonrpc", "sideways"),
        ("errors", "twopipes.settings", "sideways"),
        ("_wire", "twopipes._protocol.types", "upward"),
        ("_trace__of__record", "twopipes._server", "upward"),
        ("_blocking", "twopipes._cli", "upward"),
        ("_session__of__eras", "twopipes.unranked", "that module has no rank"),
        ("_session__of__eras", "twopipes", "a private package does not import the public one"),
    ],
)
def test_a_forbidden_import_is_named_with_its_reason(sample, package, other, why):
    (found,) = sample(**{package: f"import {other}"})
    assert found.endswith(f"imports {other}: {why}")


@pytest.mark.parametrize(
    ("package", "text"),
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
def test_allowed_imports_are_accepted(sample, package, text):
    assert sample(**{package: text}) == []


@pytest.mark.parametrize("module", ["asyncio", "socket", "os", "os.path", "time", "threading", "subprocess", "select", "signal"])
@pytest.mark.parametrize("package", ["_wire", "_protocol__of__types", "_session__of__ledger"])
def test_the_lower_ranks_do_no_io(sample, package, module):
    (found,) = sample(**{package: f"def late():\n    import {module}"})
    assert found.endswith("this package does no I/O and reads no clock")


@pytest.mark.parametrize("module", ["secrets", "random", "uuid"])
def test_only_the_session_uses_random_numbers(sample, module):
    (found,) = sample(_protocol__of__types=f"from {module} import *", _session__of__inputs=f"import {module}")
    assert found.startswith("_protocol/types.py")


def test_a_computed_import_is_forbidden_in_the_lower_ranks(sample):
    (found,) = sample(_session__of__eras="from importlib import import_module\nimport_module('twopi' + 'pes.server')")
    assert found.endswith("the target of this import is unknown")


def test_a_module_without_a_rank_is_found(sample):
    assert sample(utils="", extra__of__part="") == ["extra: this module has no rank", "utils: this module has no rank"]


def test_the_public_package_imports_lazily(sample):
    (found,) = sample(__init__="from twopipes.errors import McpError")
    assert found.endswith("only lazily")
