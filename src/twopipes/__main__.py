"""``python -m twopipes`` is the ``twopipes`` command."""

import sys

from twopipes._cli import main

sys.exit(main())
