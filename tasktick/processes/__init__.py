"""Several processes on one machine: a supervisor that holds the sockets, and the nodes that it starts.

The supervisor takes the lock of the data folder, binds the API's address and one gossip port for each process, and
starts the processes with all of that handed down: the very same listening socket in each, so that whoever is free
takes the next connection, and none is lost with a process that ends. Each is a node of the ring, with a name and an
incarnation of its own. They talk over a pair of sockets, a line of JSON a word (`words`).

Invariants. Nothing of the folder's lock, the address or a gossip port is given back before the last process has
ended: the lock is one open file, held by all of them, so whoever gets it next knows that all are dead. Of a process
that was waited for, and whose end of the line is closed, the supervisor writes into the store that it is dead; of no
other.

Failure: a process that ends by itself is started again, later each time; one that cannot start for reasons of its own
ends the whole with its exit code, before the first READY at once. One that says nothing for long is killed. A process
whose supervisor is gone stops in order.
"""
