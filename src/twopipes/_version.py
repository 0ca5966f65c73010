"""The version of twopipes, said once: for packages, and for the peers that ask who is speaking."""

__version__ = "0.1.0"
