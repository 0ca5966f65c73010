"""Needs a variable in its environment, and does not name it."""

import os
import sys

from stdio_server import serve

if "DOCTOR_TEST_REGION" not in os.environ:
    sys.exit("bad configuration")
serve()
