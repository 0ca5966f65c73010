"""The benchmark drives servers, detects wrong responses, and fails on a loss. Nothing here depends on a clock."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
# At the end: general names such as `table` must not hide other modules.
sys.path.append(str(BENCHMARKS))

import bench  # noqa: E402
from bench import FIGURES, figure_of  # noqa: E402
from checking import compare  # noqa: E402
from contenders import Contender  # noqa: E402
from driver import Call, Exchange, Failed, Served, check  # noqa: E402
from measuring import ECHO, ECHO_DEF, QUICK, WEATHER, Bench, Metric, Sheet, checked  # noqa: E402
from publish import BEGIN, COMMITTED, END, PAGE, README, filled, page_blocks, readme_line  # noqa: E402
from table import targets_table  # noqa: E402
from targets import TARGETS, Target, for_file, judged  # noqa: E402

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads CPU time and memory from /proc")
SERVERS = BENCHMARKS / "servers"
RATE = Metric("pipelined/rate", "1/s", "higher")
TIME = Metric("round trip/p50", "s", "lower")
RATIO = {"figure": "f", "against": "official", "better": "lower", "verdict": "met", "why": None, "target": None}


def serving(script, folder, **options):
    return Served([sys.executable, str(SERVERS / script)], stderr=folder / "stderr", **options)


# The driver


@pytest.mark.parametrize(
    ("script", "era"),
    [("hand_blocking.py", "legacy"), ("hand_asyncio.py", "modern"), ("ours.py", "legacy"), ("ours.py", "modern")],
)
def test_the_driver_calls_a_server_and_checks_its_responses(tmp_path, script, era):
    with serving(script, tmp_path, era=era) as served:
        served.open()
        for call in (ECHO, ECHO_DEF, WEATHER):
            assert len(checked(served, call, 2, in_flight=0).latencies) == 2
            checked(served, call, 5, in_flight=2)
        assert served.cpu > 0
        held, most = served.memory()
        assert 0 < held <= most


def test_more_calls_may_be_in_flight_than_the_pipes_hold(tmp_path):
    with serving("hand_blocking.py", tmp_path) as served:
        served.open()
        text = "x" * 10_000
        checked(served, Call("echo", {"text": text}, text), 100, in_flight=100)


def test_a_long_text_is_sent_and_returned(tmp_path):
    with serving("ours.py", tmp_path) as served:
        served.open()
        text = "x" * 1_000_000
        for call in (Call("swallow", {"text": text}, str(len(text))), Call("produce", {"size": len(text)}, text)):
            lines = served.prepare(call, 1)
            exchange = served.one_large(lines[0], limit=60)
            check(exchange, lines, call)
            # The text crosses once, in each direction.
            assert len(exchange.answers) < len(text) + 1024


def test_pings_get_responses_while_calls_wait(tmp_path):
    with serving("ours.py", tmp_path) as served:
        served.open()
        call = Call("pause", {"seconds": 0.05}, "done")
        lines = served.prepare(call, 3)
        exchange, pings = served.beside(lines, every=0.001)
        check(exchange, lines, call)
        assert pings


def test_the_raw_pipe_only_has_to_return_the_line(tmp_path):
    with serving("raw_pipe.py", tmp_path, echoes=True) as served:
        served.open()
        checked(served, ECHO, 3, in_flight=2)


def test_a_server_that_dies_is_a_failure_with_its_stderr(tmp_path):
    dying = Served([sys.executable, "-c", "raise SystemExit('no luck')"], stderr=tmp_path / "stderr")
    with dying, pytest.raises(Failed, match="ended with 1: no luck"):
        dying.open()


def test_a_server_that_never_responds_is_killed_after_the_timeout(tmp_path):
    silent = Served([sys.executable, "-c", "import time; time.sleep(600)"], stderr=tmp_path / "stderr")
    with silent, pytest.raises(Failed, match=r"not done within 0\.2 s"):
        silent.open(limit=0.2)


def answer(request_id, text="hello", **more):
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "result": {"content": [{"type": "text", "text": text}], **more}})


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([answer(1)], "1 of 2 calls were not answered"),
        ([answer(1), answer(1)], "unexpected response"),
        ([answer(1), answer(3)], "unexpected response"),
        ([answer(1), answer(2, "hullo")], "a wrong answer"),
        ([answer(1), answer(2, isError=True)], "a wrong answer"),
        ([answer(1), '{"jsonrpc":"2.0","id":2,"error":{"code":1,"message":"no"}}'], "a wrong answer"),
        ([answer(1), "hello"], "no message"),
    ],
)
def test_wrong_responses_are_detected(answers, said):
    lines = [ECHO.line(1, "legacy"), ECHO.line(2, "legacy")]
    with pytest.raises(Failed, match=said):
        check(Exchange(1.0, 1.0, "".join(f"{each}\n" for each in answers).encode()), lines, ECHO)


# Turns, failures, ratios


def test_contenders_take_turns_and_missing_ones_are_reported(tmp_path):
    present = [Contender(name=name, era="legacy", home="ours", script="") for name in "AB"]
    absent = Contender(name="C", era="legacy", home="no-such-peer", script="")
    for contender in present:
        object.__setattr__(contender, "missing", lambda: None)
    sheet = Sheet()
    bench = Bench(QUICK, sheet, tmp_path, say=lambda said: None)
    turns = [(turn, each.name) for turn, each in bench.turns("some", [*present, absent], 2)]
    assert turns == [(0, "A"), (0, "B"), (1, "A"), (1, "B")]
    assert [(failure["contender"], failure["what"]) for failure in sheet.failures] == [("C", "some")]


def test_a_ratio_is_taken_within_each_round():
    sheet = Sheet()
    # The machine was ten times slower in the last round, for both.
    for turn, (ours, theirs) in enumerate([(1.0, 4.0), (2.0, 4.0), (10.0, 40.0)]):
        sheet.put(TIME, "twopipes", turn, ours)
        sheet.put(TIME, "official", turn, theirs)
    (ratio,) = judged(sheet, [Target("round trip", TIME.name, "official", 0.3)])
    assert (ratio.median, ratio.low, ratio.high, ratio.verdict) == (0.25, 0.25, 0.5, "met")


def test_a_failed_contender_is_in_the_table_and_not_dropped():
    sheet = Sheet()
    sheet.put(RATE, "twopipes", 0, 100.0)
    sheet.put(RATE, "official", 0, 5.0)
    sheet.fail("pipelined", "typescript", 0, "the server ended with 1")
    ratios = judged(sheet, [Target("rate", RATE.name, "official", 40.0), Target("rate", RATE.name, "typescript", 1.5)])
    assert [ratio.verdict for ratio in ratios] == ["missed", "failed"]
    table = targets_table(ratios)
    assert "20 (20 to 20), at least 40 **missed**" in table
    assert "failed: the server ended with 1" in table
    assert len({len(line) for line in table.splitlines()}) == 1


def test_every_ratio_has_a_unique_name():
    assert len({target.key for target in TARGETS}) == len(TARGETS)


# The check


def ratios_of(better, value, *, why=None):
    metric = Metric("some/metric", "", better)
    sheet = Sheet()
    if value is not None:
        sheet.put(metric, "twopipes", 0, value)
        sheet.put(metric, "official", 0, 1.0)
    if why is not None:
        sheet.fail("some", "twopipes", 0, why)
    return for_file(judged(sheet, [Target("some", metric.name, "official", None)]))


@pytest.mark.parametrize(
    ("better", "before", "now", "lost"),
    [
        ("lower", 1.0, 1.29, False),
        ("lower", 1.0, 1.31, True),
        ("lower", 1.0, 0.1, False),
        ("higher", 10.0, 7.1, False),
        ("higher", 10.0, 6.9, True),
        ("higher", 10.0, 50.0, False),
    ],
)
def test_the_check_fails_on_a_loss_of_more_than_30_percent(better, before, now, lost):
    assert bool(compare(ratios_of(better, before), ratios_of(better, now)).losses) is lost


def test_a_missing_ratio_is_a_loss_unless_it_was_left_out():
    before = ratios_of("lower", 1.0)
    assert "it crashed" in compare(before, ratios_of("lower", None, why="it crashed")).losses.popitem()[1]
    left_out = compare(before, ratios_of("lower", None))
    assert not left_out.losses
    assert left_out.left_out == list(before)


def test_the_program_rejects_an_unknown_figure():
    command = [sys.executable, str(BENCHMARKS / "bench.py"), "--figures", "speed"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "unknown figure speed; known figures: cold-start" in done.stderr


# The published pages


def test_the_page_and_the_readme_show_the_measurements():
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in COMMITTED if path.exists()]
    page, readme = (path.read_text(encoding="utf-8") for path in (PAGE, README))
    assert filled(page, page_blocks(runs)) == page, "write it again: make bench-publish"
    assert filled(readme, {"in short": readme_line(runs)}) == readme
    assert {run["scale"] for run in runs} == {"full"}
    assert len({json.dumps(run["figures"]) for run in runs}) == len(runs), "two runs, not one twice"


def test_a_block_is_put_between_its_marks_and_nowhere_else():
    text = f"before\n{BEGIN.format('x')}\nold\n{END}\nafter\n{END}\n"
    assert filled(text, {"x": "new"}) == text.replace("old", "new")
    with pytest.raises(ValueError, match="the page lacks"):
        filled(text, {"y": "new"})


def test_every_committed_ratio_belongs_to_a_figure_that_can_be_measured_again():
    for committed in filter(Path.exists, COMMITTED):
        assert {figure_of(key) for key in json.loads(committed.read_text(encoding="utf-8"))["ratios"]} <= set(FIGURES)


def test_a_loss_is_measured_again_before_it_is_reported(monkeypatch, capsys):
    fast, slow = ({"pipelined/rate / official": {**RATIO, "median": median}} for median in (1.0, 2.0))
    runs = []
    monkeypatch.setattr(bench, "measure", lambda _scale, figures: runs.append(figures) or {"ratios": again.pop()})
    again = [fast]
    assert bench._checked({"ratios": fast}, {"ratios": slow}, QUICK) == 0
    again = [slow, slow]
    assert bench._checked({"ratios": fast}, {"ratios": slow}, QUICK) == 1
    assert runs == [["pipelined"]] * 3
    assert "100% worse" in capsys.readouterr().err
