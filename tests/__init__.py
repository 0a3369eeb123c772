"""The tests of TaskTick: real files, real sockets, real processes, and virtual time where time matters."""
