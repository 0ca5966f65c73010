"""Starts a helper process that outlives it."""

import subprocess
import sys

from stdio_server import serve

CODE = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: signal.pause()"
subprocess.Popen([sys.executable, "-c", CODE])
serve()
