"""Its stdout was opened as on Windows: with a byte order mark and CR LF."""

import sys

from speaking import serve

sys.stdout.reconfigure(encoding="utf-8-sig", newline="\r\n")
serve()
