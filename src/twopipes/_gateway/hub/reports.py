"""What a hub reports to people: on stderr, and in the log messages of hosts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from twopipes._gateway.hub.member import ReportLevel
from twopipes._server.log import logger

_LOGGER: Final = "twopipes.hub"
_PYTHON_LEVELS: Final = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
# Problems with names that are reported at once, and in total.
_MAX_AT_ONCE: Final = 20
_MAX_PROBLEMS: Final = 200


class Reports:
    """Reports sentences.

    Args:
        log: Sends a log message to the hosts.
    """

    def __init__(self, log: Callable[..., None]) -> None:
        self._log = log
        self._problems: set[str] = set()

    def add(self, level: ReportLevel, text: str) -> None:
        """Report a sentence."""
        # Not further lines on stderr: the last lines of a server's stderr are there already.
        logger.log(_PYTHON_LEVELS[level], "%s", text.partition("\n")[0].removesuffix(":"))
        self._log(level, text, logger=_LOGGER)

    def problems(self, problems: Iterable[str]) -> None:
        """Report problems with names, each once."""
        for problem in islice(problems, _MAX_AT_ONCE):
            if problem not in self._problems and len(self._problems) < _MAX_PROBLEMS:
                self._problems.add(problem)
                self.add("warning", problem)
