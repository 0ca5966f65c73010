"""What the command line is made of: each package is one tool. Nothing is imported here."""
