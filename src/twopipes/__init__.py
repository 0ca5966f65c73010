"""twopipes: the Model Context Protocol over stdio, for Python."""

__version__ = "0.1.0"
