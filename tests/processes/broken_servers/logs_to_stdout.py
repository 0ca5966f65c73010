"""Logs where only messages belong."""

import logging
import sys

from speaking import answer, serve

logging.basicConfig(stream=sys.stdout, level=logging.INFO)


def tell(message):
    logging.getLogger("weather").info("handling %s", message["method"])
    answer(message)


serve(tell)
