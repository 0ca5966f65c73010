"""Find out why a server does not connect.

:mod:`.examination` starts the server several times and returns :class:`~.observations.Observations`. :mod:`.diagnose` turns them
into a list of :class:`~.codes.Diagnosis`, without side effects. :mod:`.codes` has the advice. :mod:`.display` prints both.
"""
