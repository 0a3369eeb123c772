"""The API, described by itself: an OpenAPI document and a page for people, both made from the table of routes.

Invariants:

* Nothing is described by hand that a table or a model says already: paths, permissions, statuses and models come
  from `routes`, `schemas` and `answers`; parameters are held to the words that `filters` knows by a test.
* Both are plain functions of the routes: the same in every process of a version, and a copy is in `docs/`.
* The page asks for nothing from elsewhere and runs no script.

It fails at its first use, in a test, where a route names no answer or a model cannot be described.
"""
