"""What is done to a server, one file for each section. A file is found by being here; see :mod:`twopipes.check.probe`."""
