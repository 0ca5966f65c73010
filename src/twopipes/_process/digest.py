"""A digest of text, for names of files and keys of caches."""

from __future__ import annotations

import random


def digest_of(text: str) -> str:
    """Return 64 hexadecimal digits that identify a text, the same in every process. Not for secrets or signatures.

    A generator is seeded with the text and its SHA-512. hashlib would load OpenSSL: 5 MB in each process that a host starts.
    """
    return f"{random.Random(text).getrandbits(256):064x}"  # noqa: S311 - it is not a secret
