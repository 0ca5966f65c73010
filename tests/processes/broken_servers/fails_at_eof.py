"""Takes the end of its input for an error."""

import sys

from speaking import serve

serve()
sys.exit("connection lost")
