"""Closes its stdout, as a daemon does."""

import os
import sys

os.close(1)
sys.stdin.read()
