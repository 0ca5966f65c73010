"""Protocol state without I/O and without a clock: bytes and ``now`` go in, events and bytes come out."""
