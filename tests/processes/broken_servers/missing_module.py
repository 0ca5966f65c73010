"""Imports what is not installed where it runs."""

from speaking import serve
from weather_of_tomorrow import forecast

serve(forecast)
