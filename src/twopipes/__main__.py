"""Run the ``twopipes`` command as ``python -m twopipes``."""

import sys

from twopipes._cli import main

sys.exit(main())
