"""From Python signatures and classes to JSON Schema, and from JSON to their values."""
