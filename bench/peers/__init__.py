"""Runs TaskTick and its peers side by side: the same work, the same receiver, the same machine, one run.

`catalogue` says what a peer is and how it is set up, `install` puts each into a folder of its own below build/peers
(never into the environment of TaskTick), `run` asks the questions and prints the table. A peer's own code stands in
`programs/`: a worker and a client in its own language and by its own means, run by what was installed for it; so
they are outside of the packages that are known here, and of the type checker's reach.

Rounds alternate between all who take part, because a machine drifts from minute to minute; each round of each has
a database of its own that is as durable as it comes. What is recorded is counted in each one's own store. A peer
that cannot be installed or fails is said to, and the others go on.

Everything runs on 127.0.0.1 and on sockets in temporary folders. Every wait has a deadline; a child stops when its
parent is gone, and what cannot know its parent (the databases, the daemon) is ended by `warden`.
"""
