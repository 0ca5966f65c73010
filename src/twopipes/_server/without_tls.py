"""asyncio without OpenSSL, until somebody wants it: a sixth of the memory of a small server, and a tenth of its start.

asyncio imports ``ssl`` in case somebody asks it for TLS. A server over two pipes does not. So that nobody can tell the difference,
the two modules that would bring OpenSSL are put in their places as what they are, and read when the first of their names is used.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from threading import RLock
from types import ModuleType
from typing import Any

__all__ = ["import_asyncio"]

_TLS, _TLS_OF_ASYNCIO = "ssl", "asyncio.sslproto"


class _Later(ModuleType):
    """A module that is read when the first of its names is used.

    The standard library's ``LazyLoader`` reads one at the second ``import`` of it already, and on Python 3.11 hands a half-read
    module to a second thread.
    """

    def __getattr__(self, name: str) -> Any:
        # `import` looks for such names, and a module that lacks them is none the less a module.
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        _read(self)
        return ModuleType.__getattribute__(self, name)

    def __dir__(self) -> Iterable[str]:
        _read(self)
        return dir(self)


_reading = RLock()
_being_read: set[str] = set()


def _read(module: ModuleType) -> None:
    with _reading:
        # Not again where the module itself, while it is read, asks for a name that it does not have yet.
        if type(module) is not _Later or module.__name__ in _being_read:
            return
        spec = module.__spec__
        assert spec is not None
        assert spec.loader is not None
        _being_read.add(module.__name__)
        try:
            spec.loader.exec_module(module)
            module.__class__ = ModuleType  # type: ignore[assignment]
        finally:
            _being_read.discard(module.__name__)


def import_asyncio() -> None:
    """Imports asyncio; OpenSSL only where something has it already, or where this Python cannot have it later."""
    if "asyncio" in sys.modules or _TLS in sys.modules:
        return
    package = PathFinder.find_spec("asyncio")
    places = None if package is None else package.submodule_search_locations
    found = {_TLS: PathFinder.find_spec(_TLS), _TLS_OF_ASYNCIO: PathFinder.find_spec(_TLS_OF_ASYNCIO, places)}
    # A Python that was built without OpenSSL has ssl.py and not what that needs; asyncio wants to see it fail.
    if not all(found.values()) or PathFinder.find_spec("_ssl") is None:
        return
    later = {name: _later(spec) for name, spec in found.items() if spec is not None}
    sys.modules.update(later)
    import asyncio  # noqa: PLC0415 - what all this is about

    # The machinery of imports does this for what it reads itself.
    asyncio.sslproto = later[_TLS_OF_ASYNCIO]  # type: ignore[attr-defined]


def _later(spec: ModuleSpec) -> ModuleType:
    module = module_from_spec(spec)
    module.__class__ = _Later
    return module
