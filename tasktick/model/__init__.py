"""What a task is and what may happen to it: values and decisions, nothing else.

Pure: no input or output, no clock, no logging. Everything that this package needs to know about the
outside (the time, randomness, the row as the store has it) comes in as an argument.

Invariants kept here:

* An id carries its partition in its last byte; nothing else decides where a task lives.
* The table of transitions stands once, in `state`; whatever is not in it raises and changes nothing.
* A fence grows for ever: `max(fence + 1, now)` at every claim.
* A term is compared for equality, never by order: after a failover an epoch can be issued twice.

It fails by raising `IllegalTransition` or `Refused`, before anything has happened.
"""
