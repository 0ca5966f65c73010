"""Start a server with the stdin and stdout that a client passed to us, and report how it ended.

Clients that launch a server do not reveal its exit code, so a test has them launch this program instead:
``witness.py FIFO COMMAND...``. Events are written to the FIFO, one JSON object per line. The server inherits the FIFO, so
EOF on it means that every process has exited.
"""

import json
import os
import signal
import subprocess
import sys


def main():
    fifo = os.open(sys.argv[1], os.O_WRONLY)

    def report(event, **facts):
        os.write(fifo, json.dumps({"witness": os.getpid(), "event": event, **facts}).encode() + b"\n")

    report("launching")
    server = subprocess.Popen(sys.argv[2:], pass_fds=(fifo,))

    def pass_on(number, frame):
        report("signal", name=signal.Signals(number).name)
        os.kill(server.pid, number)

    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, pass_on)
    report("launched", server=server.pid)
    code = server.wait()
    report("exited", code=code)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
