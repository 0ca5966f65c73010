"""Long messages in both directions, very long ones in a new process, and the peak memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from contenders import Contender, servers
from driver import Call, Failed, Served, check
from measuring import Bench, Metric, checked

KIB = 1024
MIB = 1024
# KiB. From here on each message gets a fresh process: what a process has freed before would make it cheaper.
LONG = 16 * MIB
DIRECTIONS = ("in", "out")


def named(size: int) -> str:
    """Return a size in KiB as text."""
    return f"{size // MIB} MiB" if size >= MIB else f"{size} KiB"


def seconds_metric(direction: str, size: int) -> Metric:
    """Seconds of one message."""
    return Metric(f"payload/{direction}/{named(size)}/seconds", "s", "lower")


def growth_metric(direction: str) -> Metric:
    """64 MiB over 16 MiB."""
    return Metric(f"payload/{direction}/64 MiB over 16 MiB", "x", "lower")


def peak_metric(direction: str, size: int) -> Metric:
    """The most memory while the message was there."""
    return Metric(f"memory/peak/{named(size)} {direction}", "B", "lower")


def run(bench: Bench) -> None:
    """Every size in every round."""
    scale = bench.scale
    short = [size for size in scale.sizes if size < LONG]
    for turn, contender in bench.turns("payload", servers(era="legacy", need="swallow"), max(2, scale.repeat_long)):
        took: dict[tuple[str, int], float] = {}
        with bench.attempt("payload", contender, turn), opened(bench, contender) as served:
            for size in short:
                for direction in DIRECTIONS:
                    took[direction, size] = one_size(bench, served, direction, size)
        for size in (size for size in scale.sizes if size >= LONG):
            too_large = contender.home != "ours" and size > scale.largest_for_others
            if too_large or (contender.quadratic and turn):
                if not turn:
                    bench.sheet.notes.append(f"{contender.name} was not given {named(size)} in a {scale.name} run.")
                continue
            for direction in DIRECTIONS:
                what = f"payload/{direction}/{named(size)}"
                with bench.attempt(what, contender, turn), opened(bench, contender) as served:
                    served.forget_peak()
                    took[direction, size] = one_size(bench, served, direction, size)
                    bench.sheet.put(peak_metric(direction, size), contender.name, turn, served.memory()[1])
        for (direction, size), seconds in took.items():
            bench.sheet.put(seconds_metric(direction, size), contender.name, turn, seconds)
            rate = Metric(f"payload/{direction}/{named(size)}/rate", "MB/s", "higher")
            bench.sheet.put(rate, contender.name, turn, length_of(size) / seconds / 1e6)
        _put_sums(bench, contender, turn, took)


@contextmanager
def opened(bench: Bench, contender: Contender) -> Iterator[Served]:
    """Start a process that has answered something small."""
    with contender.start(bench.noise) as served:
        served.open()
        checked(served, Call("swallow", {"text": "x"}, "1"), 1, in_flight=0)
        yield served


def length_of(size: int) -> int:
    """Return the length of a text for a line of so many KiB. Some accept at most 64 MiB for the whole line."""
    return size * KIB - (KIB if size >= MIB else 0)


def one_size(bench: Bench, served: Served, direction: str, size: int) -> float:
    """Seconds of a message of this size."""
    length = length_of(size)
    text = "x" * length
    call = Call("swallow", {"text": text}, str(length)) if direction == "in" else Call("produce", {"size": length}, text)
    seconds = []
    for _ in range(1 if size >= LONG else max(3, min(200, 4 * MIB // size))):
        lines = served.prepare(call, 1)
        exchange = served.one_large(lines[0], limit=bench.scale.patience)
        check(exchange, lines, call)
        # The same for everybody: one who also sent the text as a structure would have twice the work.
        if direction == "out" and len(exchange.answers) > length + KIB:
            raise Failed(f"sent {len(exchange.answers)} bytes for a text of {length}")
        seconds.append(exchange.seconds)
    return median(seconds)


def _put_sums(bench: Bench, contender: Contender, turn: int, took: dict[tuple[str, int], float]) -> None:
    """Record the time there and back, and how the cost grows."""
    for size in bench.scale.sizes:
        ways = [took.get((direction, size)) for direction in DIRECTIONS]
        if None not in ways:
            took["both", size] = sum(way for way in ways if way is not None)
            bench.sheet.put(seconds_metric("both", size), contender.name, turn, took["both", size])
    for direction in (*DIRECTIONS, "both"):
        short, long = took.get((direction, 16 * MIB)), took.get((direction, 64 * MIB))
        if short is not None and long is not None:
            bench.sheet.put(growth_metric(direction), contender.name, turn, long / short)
