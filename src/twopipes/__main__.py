"""``python -m twopipes`` is the ``twopipes`` command."""

import sys

from twopipes.cli import main

sys.exit(main())
