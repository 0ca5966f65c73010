"""Responds once and exits."""

from stdio_server import requests, respond

respond(next(requests()))
