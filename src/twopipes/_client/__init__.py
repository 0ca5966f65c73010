"""The async client. Nothing is imported here."""
