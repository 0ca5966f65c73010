"""How tests run here: Hypothesis never against the clock, always the same way where nobody is looking; nobody touches a home."""

import os
import signal

import pytest
from hypothesis import settings

# The same examples at every run: what passed once passes again, and nobody's change is refused for a defect that was there
# before it. TWOPIPES_HYPOTHESIS=explore looks for new ones.
settings.register_profile("same", deadline=None, print_blob=True, derandomize=True, database=None, max_examples=50)
settings.register_profile("explore", deadline=None, print_blob=True, max_examples=1000)
settings.register_profile("quick", parent=settings.get_profile("same"), max_examples=5)
settings.load_profile(os.environ.get("TWOPIPES_HYPOTHESIS", "same"))

# A shell starts a background job with SIGINT ignored, and children inherit that. Tests that press Ctrl-C need it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def _the_users_own_key_is_left_alone(tmp_path_factory):
    """Servers that ask on the stateless wire keep a key in the user's state folder; those of tests keep it elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.delenv("TWOPIPES_STATE_KEY", raising=False)
        yield
