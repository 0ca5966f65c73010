"""How tests run here: Hypothesis never against the clock, always the same way where nobody is looking; nobody touches a home."""

import os

import pytest
from hypothesis import settings

settings.register_profile("desk", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "desk")


@pytest.fixture(autouse=True, scope="session")
def _the_users_own_key_is_left_alone(tmp_path_factory):
    """Servers that ask on the stateless wire keep a key in the user's state folder; those of tests keep it elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.delenv("TWOPIPES_STATE_KEY", raising=False)
        yield
