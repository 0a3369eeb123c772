"""Mixed schedules, drawn at random: every kind of rule, in zones that change their offset while they are played."""

from random import Random
from typing import Any

from tests.api.served import URL

# Those whose clocks change in spring and in autumn of 2027, to either side, at midnight, by half an hour, by none.
ZONES = (
    "Europe/Berlin",
    "Europe/Dublin",
    "America/New_York",
    "America/Santiago",
    "America/Havana",
    "Australia/Lord_Howe",
    "Australia/Sydney",
    "Pacific/Chatham",
    "Africa/Cairo",
    "Africa/Casablanca",
    "Asia/Beirut",
    "Asia/Kolkata",
    "UTC",
)
FIELDS = ("0", "30", "15,45", "59", "*/20", "7")
HOURS = ("0", "1", "2", "3", "2,3", "*/6", "1-3", "12", "23")
DAYS = ("*", "SUN", "SAT,SUN", "MON-FRI", "0")
MACROS = ("@daily", "@weekly", "@monthly", "@midnight")
INTERVALS = ("7h", "90m", "1d", "36h", "5h", "11h")
ANCHORS = (None, "2027-01-01T02:30:00", "2027-02-28T23:59:59.500+02:00")
RRULES = (
    "FREQ=DAILY;BYHOUR=2;BYMINUTE=30",
    "FREQ=WEEKLY;BYDAY=SA,SU;BYHOUR=1,2,3;BYMINUTE=15",
    "FREQ=HOURLY;INTERVAL=5",
    "FREQ=MONTHLY;BYDAY=-1SU,1SU;BYHOUR=0,2",
    "DTSTART:20270301T023000\nRRULE:FREQ=DAILY;INTERVAL=2;COUNT=9",
    "DTSTART:20270105T013000\nRRULE:FREQ=DAILY;UNTIL=20271105T000000",
    "FREQ=DAILY;BYHOUR=1,2;BYMINUTE=0;BYSECOND=0,30",
)
SPREADS = (None, None, None, "30s", "10m", "2h")
CALENDARS: dict[str, dict[str, Any]] = {
    "weekends": {"weekly": [{"days": "SAT,SUN"}]},
    "nights": {"weekly": [{"days": "MON-SUN", "from": "02:00", "to": "03:00"}]},
    "holidays": {"timezone": "Europe/Berlin", "dates": ["2027-03-26", {"from": "2027-10-30", "to": "2027-11-01"}]},
    "moves": {
        "ranges": [{"from": "2027-01-04T22:00:00", "to": "2027-01-05T02:30:00", "rrule": "FREQ=WEEKLY;BYDAY=MO,SU"}]
    },
    "mornings": {"weekly": [{"days": "MON-SUN", "from": "00:00", "to": "12:00"}]},
}
# In the times of this one alone.
INCLUDED = {"name": "mornings", "mode": "include"}


def _cron(random: Random) -> dict[str, Any]:
    text = f"{random.choice(FIELDS)} {random.choice(HOURS)} * * {random.choice(DAYS)}"
    return {"cron": text if random.random() < 0.7 else f"{random.choice(('0', '30', '15,45'))} {text}"}


def _every(random: Random) -> dict[str, Any]:
    anchor = random.choice(ANCHORS)
    return {"every": random.choice(INTERVALS)} | ({} if anchor is None else {"anchor": anchor})


def _member(random: Random) -> dict[str, Any]:
    kind = random.randrange(3)
    return (_cron(random), _every(random), {"rrule": random.choice(RRULES)})[kind]


def _rule(random: Random) -> dict[str, Any]:
    kind = random.randrange(6)
    if kind == 0:
        return {"cron": random.choice(MACROS)}
    if kind == 1:
        found: list[dict[str, Any]] = []
        while len(found) < random.choice((2, 3)):
            one = _member(random)
            if one not in found:
                found.append(one)
        return {"spec": found}
    return (_cron(random), _cron(random), _every(random), {"rrule": random.choice(RRULES)})[kind - 2]


def drawn(random: Random, begin: str, end: str) -> dict[str, Any]:
    """A schedule as a client asks for it; some begin late, at local times of their own, end early, or after so many."""
    asked: dict[str, Any] = {
        **_rule(random),
        "timezone": random.choice(ZONES),
        "dst": {
            "gap": random.choice(("run_after", "skip")),
            "repeat": random.choice(("first", "second", "both")),
        },
        "overlap": random.choice(("skip", "allow", "buffer_one")),
        "task": {"target": {"url": URL}},
    }
    spread = random.choice(SPREADS)
    if spread is not None:
        asked["jitter"] = spread
    if random.random() < 0.3:
        asked["calendars"] = random.sample(sorted(CALENDARS.keys() - {"mornings"}), random.choice((1, 1, 2)))
    elif random.random() < 0.1:
        asked["calendars"] = [INCLUDED]
    if random.random() < 0.2:
        asked["start_at"] = begin
    if random.random() < 0.2:
        asked["end_at"] = end
    if random.random() < 0.25:
        asked["max_fires"] = random.choice((1, 2, 5, 20))
    return asked
