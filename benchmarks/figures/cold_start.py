"""From the launch of ``python server.py`` with one tool to its tools listed and its first result; and what an import costs."""

import os
import subprocess
import time
from dataclasses import replace

from contenders import SERVERS
from driver import clean_environment
from measuring import ECHO, Bench, Failed, Metric, checked

# What a host waits for: the handshake, or the discovery, and the list of tools.
TOOLS_LISTED = Metric("cold start/tools listed", "s", "lower")
TOOLS_LISTED_CPU = Metric("cold start/tools listed, CPU", "s", "lower")
# A detail of it.
FIRST_ANSWER = Metric("cold start/first answer", "s", "lower")
FIRST_ANSWER_CPU = Metric("cold start/first answer, CPU", "s", "lower")
# A server that delays its imports until the first call looks good above, but not here.
FIRST_RESULT = Metric("cold start/first result of a tool", "s", "lower")
FIRST_RESULT_CPU = Metric("cold start/first result of a tool, CPU", "s", "lower")
IMPORT = Metric("import/wall", "s", "lower")
IMPORT_CPU = Metric("import/CPU", "s", "lower")


def run(bench: Bench) -> None:
    """Start the contenders in turn; the first round compiles and fills caches, and is not counted."""
    put = bench.sheet.put
    for turn, contender in bench.turns("cold start", SERVERS, bench.scale.cold_starts + 1, both_eras=True):
        with bench.attempt("cold start", contender, turn), contender.start(bench.noise, one_tool=True) as served:
            seconds, cpu = served.open(), served.cpu
            listed, listed_cpu = served.list_tools(), served.cpu
            checked(served, ECHO, 1, in_flight=0)
            second_seconds, second_cpu = time.perf_counter() - served.started, served.cpu
            if turn:
                put(TOOLS_LISTED, contender.name, turn, listed)
                put(TOOLS_LISTED_CPU, contender.name, turn, listed_cpu)
                put(FIRST_ANSWER, contender.name, turn, seconds)
                put(FIRST_ANSWER_CPU, contender.name, turn, cpu)
                put(FIRST_RESULT, contender.name, turn, second_seconds)
                put(FIRST_RESULT_CPU, contender.name, turn, second_cpu)
    importers = [each for each in SERVERS if each.imports is not None and each.era == "legacy"]
    # The bare import loads next to nothing, because names are loaded on first use, so it cannot be compared with the others.
    importers.append(replace(SERVERS[0], name="import twopipes alone", imports="import twopipes"))
    for turn, contender in bench.turns("import", importers, bench.scale.cold_starts + 1, both_eras=True):
        with bench.attempt("import", contender, turn):
            seconds, cpu = import_cost([contender.python, "-c", contender.imports or "pass"])
            if turn:
                put(IMPORT, contender.name, turn, seconds)
                put(IMPORT_CPU, contender.name, turn, cpu)


def import_cost(command: list[str]) -> tuple[float, float]:
    """Return the wall-clock and CPU seconds of a whole process."""
    started = time.perf_counter()
    process = subprocess.Popen(command, env=clean_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    # Not Popen.wait: only wait4 returns the CPU time of the process.
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise Failed(f"{' '.join(command)} ended with {process.returncode}")
    return seconds, usage.ru_utime + usage.ru_stime
