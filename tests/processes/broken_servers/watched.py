"""Starts a watchdog in a session of its own, which notices the end of the server a moment later and ends as well."""

import os
import subprocess
import sys

from stdio_server import serve

# It holds the other end of a pipe, and none of the server's streams.
CODE = "import os, sys, time; os.read(int(sys.argv[1]), 1); time.sleep(0.3)"
theirs, ours = os.pipe()
subprocess.Popen(
    [sys.executable, "-c", CODE, str(theirs)],
    pass_fds=[theirs],
    start_new_session=True,
    stdin=subprocess.DEVNULL,
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)
os.close(theirs)
serve()
