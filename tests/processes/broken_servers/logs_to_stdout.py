"""Logs to stdout."""

import logging
import sys

from stdio_server import respond, serve

logging.basicConfig(stream=sys.stdout, level=logging.INFO)


def handle(message):
    logging.getLogger("weather").info("handling %s", message["method"])
    respond(message)


serve(handle)
