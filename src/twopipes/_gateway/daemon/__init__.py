"""``twopipes keep --share``: a daemon of this user that runs the servers, and the relay in a host's configuration.

The relay (:mod:`.relay`, :mod:`.start`, :mod:`.place`) imports neither asyncio nor msgspec, because every host starts one for
each server.
"""
