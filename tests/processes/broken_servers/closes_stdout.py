"""Becomes a daemon, as it thinks."""

import os
import sys

os.close(1)
sys.stdin.read()
