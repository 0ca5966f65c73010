"""Wants a variable in its environment, and does not say which."""

import os
import sys

from speaking import serve

if "DOCTOR_TEST_REGION" not in os.environ:
    sys.exit("bad configuration")
serve()
