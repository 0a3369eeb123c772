"""CronJobs of Kubernetes, as YAML or JSON: one document, several, or a List.

`schedule` is Go's cron (see `gocron`), in `timeZone` or in the zone of the controller, which is UTC in most clusters.
`concurrencyPolicy` is Allow unless said; `startingDeadlineSeconds` is how late a job may still start; `backoffLimit`
(6 unless said) counts retries, so attempts are one more; `activeDeadlineSeconds` bounds a job.
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from tasktick.ctl.importers import gocron, shell
from tasktick.ctl.importers.account import Account, Entry, Refused, glimpse
from tasktick.ctl.importers.crontab import call_task

_OVERLAP = {"Allow": "allow", "Forbid": "skip", "Replace": "cancel_other"}
_SHELLS = ("sh", "bash", "ash", "dash")
_BACKOFF_LIMIT = 6
# Kubernetes reads YAML by the older rules, by which these words are true.
_YES = (True, "yes", "Yes", "YES", "on", "On", "ON", "y", "Y")


def read(account: Account, documents: list[Any]) -> None:
    """Every CronJob of some documents; what else they hold is told."""
    for number, one in enumerate(documents, 1):
        if isinstance(one, Mapping) and str(one.get("kind", "")).endswith("List"):
            read(account, list(one.get("items") or ()))
        elif isinstance(one, Mapping) and one.get("kind") == "CronJob":
            meta = _part(one, "metadata")
            name = str(meta.get("name") or f"cronjob-{number}")
            space = str(meta.get("namespace") or "default")
            key = name if space == "default" else f"{space}.{name}"
            account.add(f"CronJob {space}/{name}", key, partial(_schedule, document=one))
        elif one is not None:
            kind = str(one.get("kind")) if isinstance(one, Mapping) else glimpse(one)
            account.refuse(f"document {number}", kind, "This is no CronJob.")


def _part(document: Any, *names: str) -> dict[str, Any]:
    for name in names:
        document = document.get(name) if isinstance(document, Mapping) else None
    return dict(document) if isinstance(document, Mapping) else {}


def _schedule(entry: Entry, document: Mapping[str, Any]) -> dict[str, Any]:
    spec = _part(document, "spec")
    rule, zone = gocron.rule(entry, str(spec.get("schedule", "")))
    if zone is not None:
        entry.changes("A zone within the schedule is refused by newer Kubernetes; here it is taken as the zone.")
    policy = str(spec.get("concurrencyPolicy") or "Allow")
    if policy not in _OVERLAP:
        raise Refused(f"There is no concurrencyPolicy {policy}.")
    if policy == "Replace":
        entry.changes("`Replace` ended a job's pods; here the call or the task under way is cancelled.")
    late = spec.get("startingDeadlineSeconds")
    made: dict[str, Any] = {
        **rule,
        "timezone": entry.zone(spec.get("timeZone") or zone, "a CronJob without timeZone"),
        "overlap": _OVERLAP[policy],
        "catch_up": {"mode": "latest", **({"window": f"{int(late)}s"} if late else {})},
        "paused": True if spec.get("suspend") in _YES else None,
        "task": _task(entry, _part(spec, "jobTemplate", "spec")),
    }
    labels = _part(document, "metadata", "labels")
    tags = {str(name)[:128]: str(value)[:128] for name, value in labels.items() if ":" not in str(name)}
    return {**made, "tags": dict(list(tags.items())[:15]) or None}


def _task(entry: Entry, job: Mapping[str, Any]) -> dict[str, Any]:
    pod = _part(job, "template", "spec")
    containers = pod.get("containers") or []
    limit = job.get("backoffLimit", _BACKOFF_LIMIT)
    retry = {"max_attempts": min(int(limit) + 1, 1_000)}
    for name in ("parallelism", "completions"):
        if job.get(name, 1) != 1:
            entry.changes(f"`{name}` is left out: each fire is one task.")
    call = _call(entry, containers[0]) if len(containers) == 1 and not pod.get("initContainers") else None
    if call is None:
        return {**entry.work({"containers": containers, **_pod(pod)}), "retry": retry}
    task = {**call_task(entry, call), "retry": retry}
    if job.get("activeDeadlineSeconds") and "timeout" not in task["target"]:
        task["target"]["timeout"] = f"{int(job['activeDeadlineSeconds'])}s"
    return task


def _pod(pod: Mapping[str, Any]) -> dict[str, Any]:
    return {name: pod[name] for name in ("initContainers", "serviceAccountName", "volumes") if pod.get(name)}


def _call(entry: Entry, container: Any) -> shell.Call | None:
    """The call that a container makes, if it makes no more than that."""
    words = [str(one) for one in (*(container.get("command") or ()), *(container.get("args") or ()))]
    image = str(container.get("image", "")).rpartition("/")[2].partition(":")[0]
    if not container.get("command") and image in ("curl", "wget"):
        words = [image, *words]
    variables = {one["name"]: str(one["value"]) for one in container.get("env") or () if "value" in one}
    is_shell = len(words) == 3 and words[0].rpartition("/")[2] in _SHELLS and words[1] in ("-c", "-ec", "-lc")
    try:
        return shell.call_of(words[2] if is_shell else [_expanded(word, variables) for word in words], variables)
    except shell.NotACall as why:
        if any(name in " ".join(words) for name in ("curl", "wget")):
            entry.changes(f"It is no plain call: {why}.")
        return None


def _expanded(word: str, variables: Mapping[str, str]) -> str:
    """Kubernetes' own `$(NAME)`; one that is not known can only stand in a header."""
    return re.sub(r"\$\((\w+)\)", lambda found: variables.get(found[1], f"{shell.REFERENCE}{found[1]}}}"), word)
