"""What is done to a client, one file for each section. A file is found by being here; see :mod:`twopipes.check.posing`."""
