"""Recordings of conversations: the format, a reader, a recorder, and a check of the protocol rules."""
