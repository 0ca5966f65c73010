"""The client without ``await``. Nothing is imported here."""
