"""The ring: its parts one by one, many members in virtual time, and a few on real sockets."""
