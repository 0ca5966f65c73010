"""A server that one word of a command line names: a URL or the address of a socket, and the headers that go with a URL."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from twopipes._channels.address import SCHEMES
from twopipes._tools.usage import UsageError

# The environment variable with the token for a server at a URL.
BEARER_VARIABLE = "TWOPIPES_BEARER"
URL_SCHEMES = ("http://", "https://")
# Names and values that a header can have.
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


def is_url(word: str) -> bool:
    """Whether a word is the URL of a server."""
    return word.startswith(URL_SCHEMES)


def is_address(word: str) -> bool:
    """Whether a word is the URL of a server or the address of a socket."""
    return word.startswith((*URL_SCHEMES, *SCHEMES))


def read_headers(given: Iterable[str]) -> dict[str, str]:
    """Return the headers of ``--header`` by name."""
    headers = {}
    for each in given:
        name, colon, value = each.partition(":")
        if not colon or not _HEADER_NAME.fullmatch(name.strip()) or not _HEADER_VALUE.fullmatch(value.strip()):
            raise UsageError(f"invalid --header for {name.strip()[:40]!r}; write --header 'NAME: VALUE'")  # the value may be secret
        headers[name.strip()] = value.strip()
    return headers


def token_of(given: str | None, source: str) -> str | None:
    """Return the token that an option gives, or else the one of the environment; ``source`` names the option in an error."""
    token = given or os.environ.get(BEARER_VARIABLE) or None
    if token is not None and not _HEADER_VALUE.fullmatch(token):
        raise UsageError(f"the token of {source} or {BEARER_VARIABLE} has characters that a header cannot contain")
    return token
