"""How Hypothesis runs here: never against the clock, and always the same way where nobody is looking."""

import os

from hypothesis import settings

settings.register_profile("desk", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "desk")
