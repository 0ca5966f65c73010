"""Extensions in the capabilities of hosts and servers, which pass through a gateway in both eras."""

from __future__ import annotations

from typing import TypeVar

from msgspec import structs

from twopipes._protocol.meta_keys import is_extension_name
from twopipes._protocol.types import ClientCapabilities, ServerCapabilities

Capabilities = TypeVar("Capabilities", ClientCapabilities, ServerCapabilities)


def with_valid_extensions(capabilities: Capabilities) -> Capabilities:
    """Return capabilities without extensions that the gateway must not declare: each needs a prefix and an object (CP-07)."""
    extensions = capabilities.extensions
    if extensions is None:
        return capabilities
    valid = {name: value for name, value in extensions.items() if is_extension_name(name) and isinstance(value, dict)}
    return capabilities if valid == extensions else structs.replace(capabilities, extensions=valid or None)
