"""Crashes with an error of its own."""

import sys

sys.exit("the configuration of the flux capacitor makes no sense")
