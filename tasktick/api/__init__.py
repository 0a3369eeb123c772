"""The HTTP edge: what clients ask, checked and put into the words of the model, and what they are told.

A request passes, in this order: `limits` (bytes, connections and deadlines, before anything is parsed), `express`
(whether it can be answered without a task), `app` (route, key, role, body), one handler of its resource, and back
as JSON. Everything that is refused is an RFC 9457 problem, whoever refuses it; `problems` is the one place that knows
codes and statuses.

Invariants:

* A 2xx to a write is sent after its commit.
* The tenant comes from the key, and stands in every statement; another tenant's id is like one that never was.
* A field that is not known or not honoured is refused, never ignored.
* Every buffer, wait and connection has a bound.

`routes` is the table of what there is: method, path, handler, permission, request model, statuses.
`ports` says what the daemon must hand in; nothing here reaches further than that.
"""
