"""Does all there is to do with a server, by our own client: ``twopipes_touring.py CMD...``."""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from check.full_tour import tour
from twopipes import Timeouts

# Seconds for an answer: what a host would set, too.
asyncio.run(tour(sys.argv[1:], timeouts=Timeouts(request=5, total=10)))
