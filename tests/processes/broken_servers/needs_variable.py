"""Needs a key in its environment, and fails with a traceback."""

import os

from stdio_server import serve

KEY = os.environ["WEATHER_API_KEY"]
serve()
