"""The profiles of Hypothesis, and fixtures that keep tests away from the user's files."""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from systems import STATE_VARIABLE, mark_excluded, skipped_module

# The same examples at every run, without deadlines: a test that passed once passes again, and a change does not fail because of an
# older defect. TWOPIPES_HYPOTHESIS=explore looks for new ones; quick is for `make quick`.
settings.register_profile("same", deadline=None, print_blob=True, derandomize=True, database=None, max_examples=50)
settings.register_profile("explore", deadline=None, print_blob=True, max_examples=1000)
settings.register_profile("quick", parent=settings.get_profile("same"), max_examples=5)
# `make windows`, where everything takes several times as long.
settings.register_profile("wine", parent=settings.get_profile("quick"), suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("TWOPIPES_HYPOTHESIS", "same"))

# A shell starts a background job with SIGINT ignored, and children inherit that. Tests that press Ctrl-C need it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    mark_excluded(items)


def pytest_pycollect_makemodule(module_path, parent):
    return skipped_module(module_path, parent)


@pytest.fixture(autouse=True, scope="session")
def _keep_the_users_key(tmp_path_factory):
    """Use a temporary state folder: servers that ask for input keep their key there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(STATE_VARIABLE, str(tmp_path_factory.mktemp("state")))
        patch.delenv("TWOPIPES_STATE_KEY", raising=False)
        yield
