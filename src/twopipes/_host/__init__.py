"""Many servers at once: the configuration files of hosts, and groups of clients."""
