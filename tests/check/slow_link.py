"""A slow link: starts a server and relays both directions, each chunk 5 to 20 ms late.

    python slow_link.py SEED COMMAND...

The order of the bytes is kept. It exits when the server exits, with the same exit code.
"""

import contextlib
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time

SHORTEST, LONGEST = 0.005, 0.020
CHUNK = 64 * 1024
# Chunks on the way. A full link holds back the writer, as a pipe does.
ROOM = 256


def relay(source: int, target: int, delays: random.Random) -> None:
    """Copy one direction until it ends, then close the target."""
    link: queue.Queue[tuple[float, bytes]] = queue.Queue(ROOM)

    def receive() -> None:
        while True:
            with contextlib.suppress(OSError):
                chunk = os.read(source, CHUNK)
                link.put((time.monotonic() + delays.uniform(SHORTEST, LONGEST), chunk))
                if chunk:
                    continue
                return
            link.put((0.0, b""))
            return

    threading.Thread(target=receive, daemon=True).start()
    while True:
        due, chunk = link.get()
        time.sleep(max(0.0, due - time.monotonic()))
        if not chunk:
            break
        try:
            while chunk:
                chunk = chunk[os.write(target, chunk) :]
        except OSError:
            os.close(source)  # the reader has closed the pipe; the next write of the writer fails
            break
    os.close(target)


def main() -> int:
    """Run the command at the other end of the link."""
    seed, *command = sys.argv[1:]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    # The whole group gets signals, the server included: it decides how to react.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    there = threading.Thread(target=relay, args=(0, os.dup(child.stdin.fileno()), random.Random(f"{seed} there")), daemon=True)
    back = threading.Thread(target=relay, args=(child.stdout.fileno(), 1, random.Random(f"{seed} back")), daemon=True)
    child.stdin.close()
    there.start()
    back.start()
    code = child.wait()
    back.join()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
