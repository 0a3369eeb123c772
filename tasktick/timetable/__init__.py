"""When a schedule fires: (rule, instant) → the next instant, and what there is to say about a rule.

Arithmetic, nothing else: no clock, no asyncio, and no I/O but the zone data. `grammar` reads what was written,
`cron`, `rrule` and `interval` step (what is rare is leapt to, not walked to), `zones` knows the offsets, `fires` maps
local readings to instants by the rule for gaps and repeated hours, `policy` says which times of a backlog run and where
in its spread a fire starts, `upcoming` lists, `describe` and `lint` say in English what a rule does and what it may not
be meant to do.

Invariants:

- `next_fire(rule, after)` is a function of the rule, the zone data and `after`; it is strictly after `after`,
  and iterating equals restarting.
- What has a wildcard in its minute or hour follows the clock: it fires whenever the local reading matches, so
  in both passes of a repeated hour, and never for a time that does not exist.
- Any other cron fires each matching local time once, as `gap` and `repeat` say; times that fall on one instant
  are one fire, which counts them.
- The fire after a cursor is after both of what it holds, the instant and the local reading: newer zone data
  fires no day twice.
- Zone data is that of the `tzdata` package; a name is looked up in its list before any file is opened.

It fails by raising `Refused`, naming the field, when a rule is checked. `next_fire` of a checked rule does not
fail; it returns None where nothing is left, which for a cron is near the end of the calendar.
"""
