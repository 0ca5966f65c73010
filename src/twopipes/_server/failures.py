"""Failures of handlers: the response to the client, and the text for the author of the server."""

from __future__ import annotations

import os
from asyncio import CancelledError
from collections.abc import Iterator
from traceback import FrameSummary, TracebackException
from typing import Final

from twopipes._protocol.types import CallToolResult, TextContent
from twopipes._schema.problems import ReturnRejected
from twopipes._server.context import Context
from twopipes._server.hints import hint_about
from twopipes._server.log import logger
from twopipes._session.ledger import Call
from twopipes.errors import CapabilityMissing, FormRejected, InternalError, McpError, ToolError

_STANDARD_LIBRARY: Final = os.path.dirname(os.__file__) + os.sep
_TWOPIPES: Final = os.path.dirname(os.path.dirname(__file__)) + os.sep


def failure_response(
    error: BaseException, context: Context, *, tool: str | None = None, debug: bool = False
) -> CallToolResult | BaseException | None:
    """Turn an exception of a handler into its response, and log it if it was not meant for the client.

    Returns:
        The result of a failed ``tool``, or the error for the session to send. ``None`` if the handler is not served any more:
        Python closes a coroutine that was left behind when the server ended, or this is a copy in a forked process.
    """
    if (isinstance(error, GeneratorExit) and context.cancelled) or context._connection.process.is_forked:
        return None
    match error:
        case CancelledError():
            return InternalError("the handler was cancelled")
        case KeyboardInterrupt():
            return InternalError("the handler was interrupted")
        case ToolError() if tool is not None:
            return _tool_failure(str(error))
        case CapabilityMissing() if tool is not None and not context.call.dialect.modern:
            # TL-05: a legacy host shows this to the model; some restart the server on an error. CP-06: a modern client gets -32021.
            return _tool_failure(error.message)
        case McpError():
            return error
    log_failure(context.call, error)
    if tool is not None:  # TL-05: the model learns that the tool failed, but not how, unless its author is debugging it
        short = error.summary if isinstance(error, FormRejected) else type(error).__name__
        return _tool_failure(f"The tool {tool} failed: {_type_and_text(error) if debug else short}")
    return InternalError(f"Internal error: {_type_and_text(error)}") if debug else error


def _tool_failure(text: str) -> CallToolResult:
    return CallToolResult([TextContent(text)], is_error=True)


def log_failure(call: Call, error: BaseException) -> None:
    """Log an exception that the author should see, with the request, a traceback and a hint."""
    target = getattr(call.params, "name", getattr(call.params, "uri", ""))
    text = f"Error: {call.method} {target} failed\n{format_error(error)}{hint_about(error)}"
    logger.error("%s", text.removesuffix("\n"))


def format_error(error: BaseException) -> str:
    """Format an error with its tracebacks from the first line that its author wrote, or whole if the error is ours."""
    whole = TracebackException.from_exception(error)
    if isinstance(error, ReturnRejected):
        return "".join(whole.format_exception_only())  # the function has returned; the message is enough
    for each in _with_causes(whole):
        each.stack[:] = _relevant_frames(each.stack)
    return "".join(whole.format())


def _type_and_text(error: BaseException) -> str:
    text = "".join(TracebackException.from_exception(error).format_exception_only()).strip()
    return text.encode("utf-8", "replace").decode()


def _with_causes(error: TracebackException) -> Iterator[TracebackException]:
    left = [error]
    while left:
        each = left.pop()
        yield each
        left += [cause for cause in (each.__cause__, each.__context__, *(each.exceptions or ())) if cause is not None]


def _relevant_frames(frames: list[FrameSummary]) -> list[FrameSummary]:
    authors = [position for position, frame in enumerate(frames) if _is_authors(frame.filename)]
    if not authors:
        return list(frames)
    # After the author's last line, frames of twopipes stay: they are what that line called.
    first, last = authors[0], authors[-1]
    return [frame for frame in frames[first:last] if not frame.filename.startswith(_TWOPIPES)] + frames[last:]


def _is_authors(file: str) -> bool:
    return not file.startswith((_TWOPIPES, "<frozen ")) and (not file.startswith(_STANDARD_LIBRARY) or "-packages" in file)
