"""How hosts keep their servers: where their files are, what an entry looks like, and how one is put among the others."""
