import asyncio
import json
import subprocess
import sys

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from twopipes import Server
from twopipes._channels.memory import memory_pair

EXPORTER = InMemorySpanExporter()
PROVIDER = TracerProvider()
PROVIDER.add_span_processor(SimpleSpanProcessor(EXPORTER))
trace.set_tracer_provider(PROVIDER)


def spans_of(meta):
    """Calls a tool with this ``_meta`` and gives the answer and the spans that were recorded."""
    server = Server("traced")

    @server.tool
    async def inner() -> str:
        return f"{trace.get_current_span().get_span_context().trace_id:032x}"

    async def call():
        ours, theirs = memory_pair()
        async with ours:
            serving = asyncio.create_task(server._serve_channel(theirs))
            own = {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
                **meta,
            }
            params = {"name": "inner", "_meta": own}
            ours.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode() + b"\n")
            answer = json.loads(await ours.read())
            await ours.close_write()
            await serving
        return answer["result"]["content"][0]["text"]

    EXPORTER.clear()
    return asyncio.run(call()), EXPORTER.get_finished_spans()


def test_a_request_is_a_span_below_the_one_that_the_client_names():
    """MT-05: traceparent in _meta, as W3C writes it."""
    said, (span,) = spans_of({"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
    assert said == "0af7651916cd43dd8448eb211c80319c"
    assert span.name == "tools/call inner"
    assert span.kind is trace.SpanKind.SERVER
    assert f"{span.parent.span_id:016x}" == "b7ad6b7169203331"
    assert span.attributes["mcp.protocol.version"] == "2026-07-28"


def test_junk_in_the_trace_context_costs_the_parent_and_not_the_request():
    """MT-06."""
    _, (span,) = spans_of({"traceparent": "junk", "tracestate": 7})
    assert span.parent is None


@pytest.mark.slow
def test_nothing_of_it_is_imported_where_it_is_not_installed():
    program = (
        "import sys; sys.modules['opentelemetry'] = None\n"  # as if it were not there
        "from twopipes import Server; Server('x'); print([name for name in sys.modules if name.startswith('opentelemetry.')])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert shown.stdout == "[]\n"
