"""A server whose handlers are client calls: ``bridge`` and ``keep``. Nothing is imported here."""
