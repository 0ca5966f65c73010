"""The tour of a client, as a program: ``python touring.py CMD...`` launches a server and does all there is to do with it."""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from check.healthy import tour

asyncio.run(tour(sys.argv[1:]))
