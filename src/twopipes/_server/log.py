"""The log of the server side, and its handler: a process that serves shows the log on stderr."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress

logger = logging.getLogger("twopipes.server")


class _StderrHandler(logging.Handler):
    """Writes the text of each record to what ``sys.stderr`` is at that time."""

    def emit(self, record: logging.LogRecord) -> None:
        # A stderr that is closed, or None, must not keep the client from its response.
        with suppress(AttributeError, OSError, ValueError):
            sys.stderr.write(f"{self.format(record)}\n")
            sys.stderr.flush()


_handler = _StderrHandler()


def show_log_on_stderr() -> None:
    """Write the log to stderr, and only there: a program that configures the root logger would show it twice."""
    logger.addHandler(_handler)
    logger.propagate = False
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
