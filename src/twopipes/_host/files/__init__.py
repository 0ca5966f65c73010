"""The configuration files of hosts: where they are, what an entry means, and how each language is read and edited."""
