"""Many servers behind one front: their lists are merged, and each request goes to the server that owns its name."""
