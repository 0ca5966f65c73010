"""Use every feature of a server with our own client: ``twopipes_touring.py CMD...``."""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from check.full_tour import tour
from twopipes import Timeouts

# Seconds to wait for a response: a value that a host would choose.
asyncio.run(tour(sys.argv[1:], timeouts=Timeouts(request=5, total=10)))
