"""Bytes in, bytes out: the one room, beside ``process``, that touches descriptors.

Nothing is imported here, so a server over stdio does not pay for sockets. :mod:`.base` has the contract; :mod:`.memory`,
:mod:`.pipes`, :mod:`.sockets` and :mod:`.stdio` make channels. Nothing in this room knows what a line or a message is.
"""
