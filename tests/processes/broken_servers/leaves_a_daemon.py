"""Starts a helper process in another session, which signals to its group do not reach."""

import subprocess
import sys

from stdio_server import serve

devnull = subprocess.DEVNULL
code = "import signal; signal.pause()"
subprocess.Popen([sys.executable, "-c", code], stdin=devnull, stdout=devnull, stderr=devnull, start_new_session=True)
serve()
