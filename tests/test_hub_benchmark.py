"""The benchmark of the hub measures ratios within one round. Nothing here depends on a clock."""

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
# At the end: general names such as `table` must not hide other modules.
sys.path.append(str(BENCHMARKS))

import hub_bench  # noqa: E402
from hub_bench import Cost, Start  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="reads CPU time from /proc")]


def test_a_start_is_measured():
    start = hub_bench.measure_start(sys.executable, servers=2, tools=6)
    assert min(start) > 0


def test_a_hub_that_does_not_list_all_tools_fails_the_measurement():
    with pytest.raises(hub_bench.Failed, match="the hub listed 4 tools, not 5"):
        hub_bench.measure_start(sys.executable, servers=2, tools=5)


def test_the_middle_ratio_counts_and_a_missed_aim_is_marked():
    starts = {"quick": [Start(1.0, 1.5), Start(1.0, 9.0), Start(2.0, 2.0)], "slow": [Start(2.0, 5.0)]}
    lines = hub_bench.table(starts, {"direct": Cost(50.4, 100.0), "hub": Cost(180.0, 1300.0)}).splitlines()
    assert lines[2:4] == ["| quick | 1.00 s | 1.50 s | 1.50 (aim: 2) |", "| slow | 2.00 s | 5.00 s | 2.50 (aim: 2) **missed** |"]
    assert lines[-1] == "| hub | 180 µs | 1,300 µs |"
