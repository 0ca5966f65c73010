"""Bundles of a server that run without pip, and what registries and hosts need to find it."""
