"""Starts a helper in a session of its own, out of reach of signals to its group."""

import subprocess
import sys

from speaking import serve

devnull = subprocess.DEVNULL
code = "import signal; signal.pause()"
subprocess.Popen([sys.executable, "-c", code], stdin=devnull, stdout=devnull, stderr=devnull, start_new_session=True)
serve()
