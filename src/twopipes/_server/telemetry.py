"""A span for each request, if OpenTelemetry is installed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from twopipes._server.context import Context

Spans = Callable[[Context], AbstractContextManager[Any]]


def find_spans() -> Spans | None:
    """Return a function that opens a span around a request, a child of the span in ``_meta``; ``None`` without OpenTelemetry."""
    try:
        from opentelemetry import propagate, trace  # noqa: PLC0415 - only where it is installed
    except ImportError:
        return None

    tracer = trace.get_tracer("twopipes")

    def open_span(context: Context) -> AbstractContextManager[Any]:
        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            return nullcontext()  # OpenTelemetry is not configured
        call = context.call
        target = getattr(call.params, "name", None) or getattr(call.params, "uri", None)
        # MT-06: a malformed trace context loses the parent span, not the request.
        carrier = {key: value for key, value in context.meta.items() if isinstance(value, str)}
        return tracer.start_as_current_span(
            f"{call.method} {target}" if target else call.method,
            context=propagate.extract(carrier),
            kind=trace.SpanKind.SERVER,
            attributes={
                "mcp.method.name": call.method,
                "mcp.protocol.version": call.dialect.revision,
                "jsonrpc.request.id": str(call.id),
            },
        )

    return open_span
