"""Public names that are loaded on first use, so that importing a public module is cheap.

A public module lists its names twice: as imports for type checkers, where ``as`` marks them as public, and for :func:`lazy_names`.
"""

import sys

TYPE_CHECKING = False  # type checkers treat it as true; importing typing would cost more than this module
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def lazy_names(module: "str", homes: "Mapping[str, str]") -> "tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]":
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` for a public module.

    Args:
        module: The module's ``__name__``.
        homes: The public names in each private module, separated by spaces.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def load(name: "str") -> "Any":
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        from importlib import import_module  # `import twopipes` alone does not need it

        value = getattr(import_module(home), name)
        setattr(sys.modules[module], name, value)  # the next access does not call this function
        return value

    def names() -> "list[str]":
        return sorted({*vars(sys.modules[module]), *home_of})

    return load, names, sorted(home_of)
