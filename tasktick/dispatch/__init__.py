"""How a task is fired: from a due task to a request on the wire, and from an answer to an outcome.

The outside is hostile here, so what it may do to us is bounded in this package and nowhere else:

* No connection is opened to an address that policy forbids. `guard` judges a URL when a task is made
  and `connector` judges the numeric address at the moment it is dialled; names, redirects, kept
  connections and proxies give no way round it.
* One send writes one request. Nothing below re-sends by itself, and redirects are not followed.
* Whatever a receiver does, it costs at most its deadline, one connection, and a bounded number of
  bytes; an answer's body is never decompressed. A connection with any oddity is closed, not kept.
* `byte_left` is false only where no byte of the request can have reached anybody.
* What is signed is what is sent: the stored bytes, under the task's id, with a fresh timestamp.

A call under way is no task of the loop: `begin` starts it, and it calls back once, later, unless it is cut. What was
claimed beyond the calls that a host gets at once waits in the `runway`, for half its time to start at most.

What a crowd of fires will send is read before it is due (`foresight`, `provisions`): a hint, which a claim takes for
rows that are as they were, and which is worth nothing for all others.

It fails by saying so in an `Outcome` with a stable code; a send raises nothing but its cancellation.
"""
