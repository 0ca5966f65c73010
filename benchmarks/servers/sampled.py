"""Runs a server and looks, every so often by its CPU time, at what it is doing: ``sampled.py COUNTS.json SERVER.py``.

What C code does counts for the Python function that called it, and so does what the kernel does for that C code.
"""

import atexit
import json
import runpy
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

EVERY = 0.001  # seconds of CPU
counts: Counter[str] = Counter()


def look(_number: int, frame: FrameType | None) -> None:
    """Counts where the program is."""
    if frame is not None:
        code = frame.f_code
        counts[f"{code.co_filename}\n{code.co_qualname}"] += 1


def main() -> None:
    """Counts from the signal SIGUSR1 on; what came before is start-up."""
    target, script = Path(sys.argv[1]), sys.argv[2]
    atexit.register(lambda: target.write_text(json.dumps(counts)))
    signal.signal(signal.SIGPROF, look)
    signal.signal(signal.SIGUSR1, lambda _number, _frame: signal.setitimer(signal.ITIMER_PROF, EVERY, EVERY))
    sys.argv = [script]
    runpy.run_path(script, run_name="__main__")


main()
