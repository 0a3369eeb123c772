"""All rules in one machine."""

from tests.beside.keeping import KeepingRules
from tests.beside.lists import ListRules
from tests.beside.plans import PlanRules
from tests.beside.tasks import TaskRules


class Machine(TaskRules, PlanRules, KeepingRules, ListRules):
    """Everything that is done to a store, in any order."""
