"""The HTTP edge over real sockets and a real store."""
