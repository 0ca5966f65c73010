"""Starts a helper that does not end with it."""

import subprocess
import sys

from speaking import serve

CODE = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: signal.pause()"
subprocess.Popen([sys.executable, "-c", CODE])
serve()
