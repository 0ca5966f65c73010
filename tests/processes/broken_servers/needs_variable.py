"""Wants a key in its environment, and says so by a traceback."""

import os

from speaking import serve

KEY = os.environ["WEATHER_API_KEY"]
serve()
