"""Many servers behind one front: ``twopipes hub``."""
