"""What a reader of an error can do: which option to change, named as that reader types it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["IN_PYTHON", "Remedy"]

IN_PYTHON: Mapping[str, str] = {
    "connect": "timeouts=Timeouts(connect={value})",
    "request": "timeouts=Timeouts(request={value})",
    "total": "timeouts=Timeouts(total={value})",
    "max_pages": "limits=Limits(max_pages={value})",
    "max_listed": "limits=Limits(max_listed={value})",
    "cwd": "cwd=",
    "path": "PATH in env=",
}
"""How each option is typed in a call of :func:`twopipes.connect`. The command line has a table of its own."""


class Remedy(NamedTuple):
    """An option that would change the outcome.

    Attributes:
        option: Its key in a table such as :data:`IN_PYTHON`.
        value: A value that may do.
        when: The rest of the sentence: ``if the server needs longer``.
    """

    option: str
    value: float
    when: str

    def told(self, options: Mapping[str, str]) -> str:
        """It, as the tail of an error message; empty where the reader has no such option."""
        name = options.get(self.option)
        value = self.value if isinstance(self.value, int) else f"{float(f'{self.value:.2g}'):g}"
        return "" if name is None else f"; pass {name.format(value=value)} {self.when}"
