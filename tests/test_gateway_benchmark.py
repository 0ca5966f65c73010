"""The benchmark of the gateway measures differences and judges aims. Nothing here depends on a clock."""

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
# At the end: general names such as `table` must not hide other modules.
sys.path.append(str(BENCHMARKS))

import gateway_bench  # noqa: E402
from gateway_bench import BRIDGE, DIRECT, KEEP, Aim  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="reads CPU time and memory from /proc")]
FIGURES = {
    "cpu/direct/legacy/legacy": 40.0,
    "cpu/direct/modern/modern": 50.0,
    "cpu/bridge/legacy/legacy": 140.0,
    "cpu/bridge/modern/modern": 250.0,
    "cpu/bridge/legacy/modern": 260.0,
    "cpu/bridge/modern/legacy": 240.0,
    "memory/keep": 20.0,
    "second/keep/legacy": 100.0,
    "second/keep/modern": 301.0,
    "empty": 9.0,
}


@pytest.mark.parametrize("way", [DIRECT, BRIDGE, KEEP], ids=lambda way: way.name)
def test_a_way_is_measured_and_leaves_no_process(way):
    figures = gateway_bench.measure_calls(sys.executable, way, "legacy", "legacy", 30)
    assert set(figures) == {"cpu", "latency"}
    assert min(figures.values()) > 0


def test_memory_is_measured():
    figures = gateway_bench.measure_memory(sys.executable, BRIDGE)
    assert figures["memory"] > gateway_bench.empty_python(sys.executable) > 0
    assert figures["copies"] > 0


def test_a_way_is_compared_with_the_server_of_the_same_era():
    assert gateway_bench.added(FIGURES, "cpu", BRIDGE, "legacy", "modern") == 210.0
    assert gateway_bench.added(FIGURES, "cpu", KEEP, "legacy", "modern") is None


def test_the_worst_era_counts_for_an_aim():
    assert gateway_bench.aims(FIGURES) == [
        Aim("bridge: CPU per call, added, one era", 200.0, 150, "µs"),
        Aim("keep: memory over an empty Python", 11.0, 15, "MB"),
        Aim("keep: second launch of a slow server to tools listed", 301.0, 300, "ms"),
    ]


def test_a_missed_aim_is_marked():
    assert gateway_bench.aims_table(gateway_bench.aims(FIGURES)).splitlines()[2:] == [
        "| bridge: CPU per call, added, one era | 200.0 µs | at most 150 µs **missed** |",
        "| keep: memory over an empty Python | 11.0 MB | at most 15 MB |",
        "| keep: second launch of a slow server to tools listed | 301.0 ms | at most 300 ms **missed** |",
    ]
