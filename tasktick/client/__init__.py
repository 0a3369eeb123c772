"""The Python client: for programs that make tasks, and for `tasktick ctl`.

`core` builds requests and reads answers, and opens nothing; `schedules` has the requests about schedules; `sync`
sends them over the standard library's HTTP. So another way of sending needs only its own few lines.

Invariants:

* A request is sent a second time only if that cannot do harm: it reads, or it carries an `Idempotency-Key`.
* What the server refuses is a `Problem` with its code, its faults and its request id; what does not get
  through is `Unreachable`. Nothing else is raised for what a server or a network may do.
* Redirects are not followed and no proxy is taken from the environment: the key goes where it was told to.
"""
