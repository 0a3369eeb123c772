"""The command line as its users meet it: real files, real sockets, real processes."""
