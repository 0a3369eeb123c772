"""Roles, and the one table of what each may do. Pure."""

from enum import StrEnum


class Role(StrEnum):
    """What a key is for."""

    VIEWER = "viewer"
    SUBMITTER = "submitter"
    MANAGER = "manager"
    OPERATOR = "operator"


class Permission(StrEnum):
    """What a request needs."""

    READ = "read"
    """See what the tenant has."""
    CREATE = "create"
    """Make tasks."""
    CANCEL = "cancel"
    """Cancel the tenant's tasks."""
    MANAGE = "manage"
    """Change, hold, run again and remove what the tenant has."""
    ADMINISTER = "administer"
    """The tenant's keys, secrets and notifications."""
    OPERATE = "operate"
    """Every tenant, the cluster, and the process itself."""


_VIEWER = frozenset({Permission.READ})
_SUBMITTER = _VIEWER | {Permission.CREATE, Permission.CANCEL}
_MANAGER = _SUBMITTER | {Permission.MANAGE, Permission.ADMINISTER}
_OPERATOR = _MANAGER | {Permission.OPERATE}

PERMISSIONS: dict[Role, frozenset[Permission]] = {
    Role.VIEWER: _VIEWER,
    Role.SUBMITTER: _SUBMITTER,
    Role.MANAGER: _MANAGER,
    Role.OPERATOR: _OPERATOR,
}


def may(role: Role, permission: Permission) -> bool:
    """Whether this role is allowed that."""
    return permission in PERMISSIONS[role]


def least(permission: Permission) -> Role:
    """The smallest role that is allowed that: what a refusal tells the caller to ask for."""
    return next(role for role in Role if permission in PERMISSIONS[role])


def up_to(role: Role) -> list[Role]:
    """This role and those that may do less: the ones whose keys it may give and take."""
    return list(Role)[: list(Role).index(role) + 1]
