"""Prints its usage first and then what is wrong, as programs made with click do."""

import sys

sys.stderr.write("Usage: server [OPTIONS] FOLDER\nTry 'server --help' for help.\n\nError: Missing argument 'FOLDER'.\n")
sys.exit(2)
