"""What a server author writes, and what the server does by itself."""
