"""Judges: one small function for each rule that a recording can show to be broken."""
