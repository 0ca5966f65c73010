"""The public names. They are a promise, so a change of them needs a change of this file."""

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import twopipes

PUBLIC = [
    "Audio",
    "CallResult",
    "CancelToken",
    "Change",
    "Client",
    "Context",
    "Image",
    "InputPolicy",
    "Limits",
    "McpError",
    "RequestCancelled",
    "RequestTimedOut",
    "RestartPolicy",
    "Server",
    "ServerCommand",
    "ServerExited",
    "ServerSettings",
    "ShutdownPlan",
    "Subscription",
    "Timeouts",
    "ToolError",
    "ToolResult",
    "TwopipesError",
    "__version__",
    "connect",
]
# Public modules that load their names when they are first used.
LAZY = [
    "twopipes",
    "twopipes.blocking",
    "twopipes.channels",
    "twopipes.host",
    "twopipes.http",
    "twopipes.process",
    "twopipes.sansio",
    "twopipes.testing",
    "twopipes.trace",
    "twopipes.types",
]
# Types that two methods share.
ALIASES = {"ListChangedParams"}
MODULES = [*LAZY, "twopipes.errors", "twopipes.outcome", "twopipes.settings"]
NAMES = [(module, name) for module in MODULES for name in importlib.import_module(module).__all__]


def test_the_public_names_are_listed_here():
    assert twopipes.__all__ == PUBLIC


def test_the_public_modules_are_listed_here():
    package = Path(twopipes.__file__).parent
    found = {path.stem for path in package.iterdir() if not path.name.startswith(("_", "."))}
    assert sorted(found - {"py"}) == sorted(module.partition(".")[2] for module in MODULES if "." in module)


@pytest.mark.parametrize(("module", "name"), NAMES, ids=[f"{module}.{name}" for module, name in NAMES])
def test_a_public_name_is_the_object_it_names(module, name):
    found = getattr(importlib.import_module(module), name)
    assert found is getattr(importlib.import_module(module), name)
    if isinstance(found, type) and name not in ALIASES:
        assert found.__name__ == name


@pytest.mark.parametrize("module", LAZY)
def test_dir_shows_the_names_even_before_they_are_used(module):
    found = dir(importlib.import_module(module))
    assert set(importlib.import_module(module).__all__) <= set(found)
    assert found == sorted(found)


@pytest.mark.parametrize("module", MODULES)
def test_a_star_import_has_exactly_the_public_names(module):
    namespace: dict = {}
    exec(f"from {module} import *", namespace)
    assert sorted(namespace.keys() - {"__builtins__"}) == sorted(importlib.import_module(module).__all__)


@pytest.mark.parametrize("module", LAZY)
def test_an_unknown_name_is_an_attribute_error(module):
    with pytest.raises(AttributeError, match=rf"module '{module}' has no attribute 'Sever'"):
        _ = importlib.import_module(module).Sever


def star_names(module: str) -> set[str]:
    """Return the names that type checkers take from ``import *``: ``__all__``, or the public names that the module defines."""
    loaded = importlib.import_module(module)
    if hasattr(loaded, "__all__"):
        return set(loaded.__all__)
    found: set[str] = set()
    body = ast.parse(Path(loaded.__file__).read_text(encoding="utf-8")).body
    for node in [inner for outer in body for inner in (outer.body if isinstance(outer, ast.If) else [outer])]:
        match node:
            case ast.ImportFrom(names=[ast.alias(name="*")]):
                found |= star_names(node.module)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                found.add(name)
    return {name for name in found if not name.startswith("_")}


@pytest.mark.parametrize("module", LAZY)
def test_type_checkers_and_the_loader_see_the_same_names(module):
    tree = ast.parse(Path(importlib.import_module(module).__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    imported = [(alias, node.module) for node in block.body for alias in node.names]
    assert [alias.name for alias, _ in imported if alias.name not in {"*", alias.asname}] == []  # `as` makes a name public
    seen_by_type_checkers = {
        name: home for alias, home in imported for name in (star_names(home) if alias.name == "*" else [alias.name])
    }
    (homes,) = (node.args[1] for node in ast.walk(block) if isinstance(node, ast.Call))
    loaded = {name: home for home, names in ast.literal_eval(homes).items() for name in names.split()}
    assert seen_by_type_checkers == loaded
    assert sorted(loaded) == sorted(importlib.import_module(module).__all__)


def loaded_by(statement: str) -> set[str]:
    """Return the modules that a fresh interpreter has loaded after a statement."""
    program = f"{statement}\nimport json, sys\nprint(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-I", "-c", program], check=True, capture_output=True, text=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("module", LAZY)
def test_importing_a_public_module_loads_very_little(module):
    extra = loaded_by(f"import {module}") - loaded_by("")
    assert extra == {"twopipes", "twopipes._lazy", module}


def test_importing_an_error_loads_no_parser():
    loaded = loaded_by("from twopipes import McpError")
    assert "twopipes.errors" in loaded
    assert not {"msgspec", "asyncio"} & loaded


def test_importing_settings_loads_the_parser_but_no_event_loop():
    loaded = loaded_by("from twopipes import Limits")
    assert "msgspec" in loaded
    assert "asyncio" not in loaded
