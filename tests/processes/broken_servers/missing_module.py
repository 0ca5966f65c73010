"""Imports a module that is not installed."""

from stdio_server import serve
from weather_of_tomorrow import forecast

serve(forecast)
