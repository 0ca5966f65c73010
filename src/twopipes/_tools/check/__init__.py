"""The conformance check: is what a server or a client says on the wire what the specification wants?

The table of rules is :mod:`.rules`; a rule is judged by a probe (:mod:`.probes`, for servers), by a scenario (:mod:`.scenarios`,
for clients), or by what a conversation shows of itself (:mod:`twopipes._trace.findings`). Nothing is imported here: the posing
server that clients launch is a part of this room and has to start fast.
"""
