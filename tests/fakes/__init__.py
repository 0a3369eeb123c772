"""Stand-ins for the world outside: receivers, clocks, resolvers. Real sockets wherever sockets matter."""
