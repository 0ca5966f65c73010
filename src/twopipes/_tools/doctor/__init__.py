"""What is wrong with a server that does not connect: it is watched here, and what was seen is judged apart from that.

:mod:`.examination` starts the server several times and gives :class:`~.observations.Observations`; :mod:`.judging` makes a list
of :class:`~.codes.Diagnosis` of them without touching anything; :mod:`.telling` says it to a person.
"""
