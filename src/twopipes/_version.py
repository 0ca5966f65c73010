"""The version of twopipes, for packages and for peers."""

__version__ = "0.1.0"
