"""The benchmark over HTTP drives a server, detects wrong responses, and judges ratios. Nothing here depends on a clock."""

import asyncio
import importlib.util
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
# At the end: general names such as `table` must not hide other modules.
sys.path.append(str(BENCHMARKS))

import http_bench  # noqa: E402
import http_load  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads CPU time and memory from /proc"),
    pytest.mark.skipif(importlib.util.find_spec("uvicorn") is None, reason="needs uvicorn"),
]
ON_UVICORN = ("-m", "uvicorn", *http_bench.QUIET, "--port", "PORT")


@pytest.fixture(params=["bare:app", "ours:app"])
def served(request):
    with http_bench.serving(http_bench.Contender("x", (sys.executable, *ON_UVICORN, request.param))) as (pid, port):
        yield request.param, pid, port


def test_a_server_is_loaded_and_measured(served):
    name, pid, port = served
    found = http_bench.load(port, in_flight=4, seconds=0.1)
    assert found["requests"] >= 4
    assert 0 < found["p50"] <= found["p99"]
    assert http_bench.memory_of(pid) > 0
    assert http_bench.cpu_of(pid) > 0
    if name.startswith("ours"):
        assert set(http_bench.measure_listens(pid, port, count=3, seconds=0.0)) == {"listen_memory", "listen_cpu"}


def test_a_wrong_response_is_detected(served):
    _, _, port = served
    wrong = http_load.modern(port, 7, "tools/call", {"name": "echo", "arguments": {"text": "another"}}, "echo")
    assert asyncio.run(http_load.load(port, 1, 0.0, wrong))["failures"]


@pytest.mark.parametrize(
    ("head", "body", "complete"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5", b"hello", True),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nX: y", b"hell", False),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked", b"5\r\nhello\r\n", False),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n", True),
    ],
)
def test_the_end_of_a_response_is_found(head, body, complete):
    assert http_load.is_complete(head, body) is complete


def test_a_missed_aim_is_marked():
    figures = {"twopipes": {"cpu_64": 30.0, "per_second_64": 100.0}, "official": {"cpu_64": 100.0, "per_second_64": 10.0}}
    assert http_bench.ratios(figures).splitlines()[2:] == [
        "| official | CPU per request, 64 in flight | 0.30 | at most 0.2 **missed** |",
        "| official | requests/s, 64 in flight | 10.00 | at least 5 |",
    ]
