"""Bytes in, bytes out. Besides ``_process``, only this package uses descriptors.

Nothing is imported here, so a stdio server does not load sockets. :mod:`.base` has the contract; :mod:`.memory`, :mod:`.pipes`,
:mod:`.sockets` and :mod:`.stdio` make channels. Nothing in this package knows what a line or a message is.
"""
