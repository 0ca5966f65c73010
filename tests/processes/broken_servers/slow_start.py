"""Does much before it serves."""

import time

from speaking import serve

time.sleep(0.6)
serve()
