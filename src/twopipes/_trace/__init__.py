"""Recordings of conversations: the format, a reader, a recorder, and the rules that a recording shows to be broken."""
