# ruff: noqa: F403 - every public name of these modules is a type of the protocol
"""The types of MCP as users see them: one set for all revisions.

Attributes are in snake_case and absent members are ``None``. When a value is sent, :mod:`twopipes._protocol.dialect` removes or
replaces what its revision does not have.
"""

from twopipes._protocol.base import *
from twopipes._protocol.content import *
from twopipes._protocol.features import *
from twopipes._protocol.input_requests import *
from twopipes._protocol.params import *
from twopipes._protocol.results import *
