"""A new task as its maker is answered is the task as everybody reads it."""

from random import Random

import msgspec
import pytest

from tasktick.access.vault import Vault
from tasktick.api import render
from tasktick.api.call import encode
from tasktick.api.schemas import TaskRequest
from tasktick.api.target_requests import Sealing
from tasktick.api.task_requests import Making, new_task
from tasktick.dispatch.guard import AddressPolicy
from tasktick.errors import Refused
from tasktick.model.ids import IdMaker
from tasktick.store.rows import TaskView

NOW = 1_800_000_000_123
TARGET = {"url": "https://receiver.example/hook"}
VAULT = Vault(bytes(32))
ASKED = [
    {"target": TARGET},
    {"target": TARGET, "delay": "90s", "key": "a.b:c", "name": "Übung", "type": "t", "priority": 0, "queue": "q"},
    {"target": TARGET, "run_at": "2030-12-01T09:00:00.0005+01:00", "jitter": 60, "expires_in": "2h", "sla": 0.5},
    {"target": TARGET | {"body": {"a": [1, "\u2028"]}, "headers": {"X-A": "b", "Authorization": "secret-of-many"}}},
    {"target": TARGET | {"body_text": "é\n", "method": "PUT", "timeout": 1.5, "success": ["200-204", 302]}},
    {"target": TARGET | {"body_base64": "AAE="}, "delivery": "at_most_once", "tags": {"b": "2", "a": "1"}},
    {"target": TARGET, "retry": {"strategy": "list", "delays": [1, 2.5]}, "run_at": 0},
    {"target": TARGET, "retry": {"max_attempts": 1, "jitter": 1, "factor": 2}},
]


def making(policy: AddressPolicy) -> Making:
    return Making(Sealing("default", VAULT, policy), IdMaker(Random(1)), NOW)


@pytest.mark.parametrize("asked", ASKED)
def test_it_is_rendered_as_it_will_be_read(asked: dict[str, object]) -> None:
    request = msgspec.json.decode(msgspec.json.encode(asked), type=TaskRequest)
    new = new_task(request, making(AddressPolicy()))
    lens = render.Lens(NOW, VAULT)
    whole = render.task(TaskView(new.state, new.detail, new.payload), None, lens)
    assert encode(render.new_task(new, lens)) == encode(whole)


def test_a_target_is_judged_again_by_another_policy() -> None:
    request = TaskRequest(msgspec.convert({"url": "http://127.0.0.1:9/"}, type=TaskRequest.__annotations__["target"]))
    open_, strict = AddressPolicy.of(["127.0.0.0/8"]), AddressPolicy()
    assert new_task(request, making(open_)).state.host == "127.0.0.1:9"
    for _ in range(2):
        with pytest.raises(Refused) as refused:
            new_task(request, making(strict))
        assert refused.value.code == "target_forbidden"
    own = AddressPolicy.of(["127.0.0.0/8"], [("127.0.0.1", 9)])
    with pytest.raises(Refused):
        new_task(request, making(own))
