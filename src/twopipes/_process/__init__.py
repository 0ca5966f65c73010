"""Processes: the parent that launched us, and the children that we launch. Import the submodules directly."""
