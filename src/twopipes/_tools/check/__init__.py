"""The conformance check: whether a server or a client follows the rules of the protocol.

The rules are in :mod:`twopipes._rules`. A rule is judged by a probe (for servers), by a scenario (for clients), or passively, by
the messages of a conversation (:mod:`twopipes._trace.findings`). Each topic has a folder with its probes and scenarios.

This module imports nothing: the relay process that clients launch is part of this package and has to start fast.
"""
