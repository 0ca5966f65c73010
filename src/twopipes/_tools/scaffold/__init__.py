"""New projects, and the template of their files."""
