"""Run a program and sample where its CPU time goes: ``sampled.py COUNTS.json PROGRAM.py ...``.

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
    """Count the current function."""
    if frame is not None:
        code = frame.f_code
        counts[f"{code.co_filename}\n{code.co_qualname}"] += 1


def finish(target: Path) -> None:
    """Stop sampling, and write the counts."""
    signal.setitimer(signal.ITIMER_PROF, 0)
    target.write_text(json.dumps(counts))


def main() -> None:
    """Sample from SIGUSR1 on, to leave out the start-up; with arguments, sample everything."""
    target, script, *arguments = sys.argv[1:]
    atexit.register(finish, Path(target))
    signal.signal(signal.SIGPROF, look)
    signal.signal(signal.SIGUSR1, lambda _number, _frame: signal.setitimer(signal.ITIMER_PROF, EVERY, EVERY))
    if arguments:
        signal.setitimer(signal.ITIMER_PROF, EVERY, EVERY)
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).parent))
    runpy.run_path(script, run_name="__main__")


main()
