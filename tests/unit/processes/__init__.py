"""What the supervisor of several processes decides, binds and passes on; whole ones are in tests/cli."""
