"""The rows of the table, one file for each section of the requirements, each with a tuple ``RULES``."""
