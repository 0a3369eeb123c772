"""Metrics of several processes on one page: each sample says whose it is, and no two are added up.

Counters of a process begin at zero when it does. Kept apart by node, each is a series that Prometheus knows how to
read over a restart; a sum of them would go down.
"""

from collections.abc import Mapping

HEADS = ("# HELP ", "# TYPE ", "# UNIT ")


def merged(pages: Mapping[str, str]) -> str:
    """One page of these, by node: families stay whole, and their heads are said once."""
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for node, page in pages.items():
        family = ""
        for line in page.splitlines():
            if line.startswith(HEADS):
                family = line.split(" ", 3)[2]
                known = heads.setdefault(family, [])
                if line not in known:
                    known.append(line)
            elif line and not line.startswith("#"):
                samples.setdefault(family, []).append(labelled(line, node))
    lines = [line for family, head in heads.items() for line in (*head, *samples.get(family, ()))]
    return "\n".join([*lines, ""])


def labelled(sample: str, node: str) -> str:
    """A sample with its node."""
    at = next(place for place, sign in enumerate(sample) if sign in "{ ")
    name, rest = sample[:at], sample[at:]
    said = node.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    if rest.startswith("{"):
        return f'{name}{{node="{said}",{rest[1:]}' if not rest.startswith("{}") else f'{name}{{node="{said}"{rest[1:]}'
    return f'{name}{{node="{said}"}}{rest}'


def own_page(up: Mapping[str, bool], restarts: Mapping[str, int]) -> str:
    """What the supervisor says of its processes."""
    lines = ["# HELP tasktick_process_up Whether this process serves.", "# TYPE tasktick_process_up gauge"]
    lines += [f'tasktick_process_up{{node="{node}"}} {int(serves)}' for node, serves in up.items()]
    lines += [
        "# HELP tasktick_process_restarts_total How often this process was started again.",
        "# TYPE tasktick_process_restarts_total counter",
    ]
    lines += [f'tasktick_process_restarts_total{{node="{node}"}} {count}' for node, count in restarts.items()]
    return "\n".join([*lines, ""])
