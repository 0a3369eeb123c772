"""What the commands ask of a server, and what they print."""
