"""Starts a server with the very stdin and stdout that a client gave us, and tells how it ended.

Clients that launch a server keep its exit code to themselves, so a test has them launch this instead:
``witness.py FIFO COMMAND...``. What happens goes into the FIFO, one JSON object a line. The server inherits the FIFO, so whoever
reads it to its end knows that every process is gone.
"""

import json
import os
import signal
import subprocess
import sys


def main():
    fifo = os.open(sys.argv[1], os.O_WRONLY)

    def tell(event, **facts):
        os.write(fifo, json.dumps({"witness": os.getpid(), "event": event, **facts}).encode() + b"\n")

    tell("launching")
    server = subprocess.Popen(sys.argv[2:], pass_fds=(fifo,))

    def pass_on(number, frame):
        tell("signal", name=signal.Signals(number).name)
        os.kill(server.pid, number)

    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, pass_on)
    tell("launched", server=server.pid)
    code = server.wait()
    tell("exited", code=code)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
