"""The part of the table that is for those who run TaskTick: signing secrets, API keys, tenants, nodes."""

from tasktick.access.roles import Permission
from tasktick.api import answers, cluster, cluster_answers, filters, keys, secrets, tenants
from tasktick.api.routing import Route
from tasktick.api.schemas import Empty, KeyRequest, Rotation, TenantRequest

ADMINISTER, OPERATE = Permission.ADMINISTER, Permission.OPERATE


def table() -> tuple[Route, ...]:
    """Their routes."""
    return (*_secrets(), *_keys(), *_tenants(), *_cluster())


def _secrets() -> tuple[Route, ...]:
    return (
        Route(
            "GET",
            "/v1/secrets",
            secrets.list_,
            ADMINISTER,
            (200, 422),
            "List signing secrets",
            query=filters.SECRET_WORDS,
            answer=answers.SecretPage,
        ),
        Route(
            "POST",
            "/v1/secrets",
            secrets.create,
            ADMINISTER,
            (201, 409, 422),
            "Make a signing secret; it is shown once",
            answer=answers.Secret,
            model=Empty,
            size="body",
            writes=True,
        ),
        Route(
            "POST",
            "/v1/secrets/rotate",
            secrets.rotate,
            ADMINISTER,
            (201, 409, 422),
            "Make a signing secret and let the others sign beside it for a time",
            answer=answers.Secret,
            model=Rotation,
            size="body",
            writes=True,
        ),
        Route(
            "DELETE",
            "/v1/secrets/{id}",
            secrets.retire,
            ADMINISTER,
            (204, 404, 409),
            "Let a signing secret sign no more",
            writes=True,
        ),
    )


def _keys() -> tuple[Route, ...]:
    return (
        Route(
            "GET",
            "/v1/keys",
            keys.list_,
            ADMINISTER,
            (200, 422),
            "List API keys",
            query=filters.KEY_WORDS,
            answer=answers.KeyPage,
        ),
        Route(
            "POST",
            "/v1/keys",
            keys.create,
            ADMINISTER,
            (201, 403, 409, 422),
            "Make an API key; its secret is shown once",
            answer=answers.KeyMade,
            model=KeyRequest,
            size="body",
            writes=True,
        ),
        Route("DELETE", "/v1/keys/{id}", keys.revoke, ADMINISTER, (204, 404, 409), "Revoke an API key", writes=True),
    )


def _tenants() -> tuple[Route, ...]:
    one = "/v1/tenants/{name}"
    return (
        Route(
            "GET",
            "/v1/tenants",
            tenants.list_,
            OPERATE,
            (200, 422),
            "List tenants",
            query=filters.TENANT_WORDS,
            answer=answers.TenantPage,
        ),
        Route("GET", one, tenants.get, OPERATE, (200, 404, 422), "Show a tenant", answer=answers.Tenant),
        Route(
            "PUT",
            one,
            tenants.put,
            OPERATE,
            (200, 201, 422),
            "Set what a tenant may have",
            answer=answers.Tenant,
            model=TenantRequest,
            size="body",
            writes=True,
        ),
        Route("DELETE", one, tenants.delete, OPERATE, (204, 404, 409), "Remove a tenant", writes=True),
    )


MOVES = (
    ("nodes/{id}/drain", cluster.drain, "Let a node own nothing, by its id or name; 202 while it still does"),
    ("nodes/{id}/undrain", cluster.undrain, "Let a node take its share again; 202 until it has it"),
)


def _cluster() -> tuple[Route, ...]:
    return (
        Route(
            "GET",
            "/v1/cluster",
            cluster.get,
            OPERATE,
            (200, 422),
            "Show the nodes, and which partitions each owns",
            answer=cluster_answers.Cluster,
        ),
        Route(
            "POST",
            "/v1/cluster/rebalance",
            cluster.rebalance,
            OPERATE,
            (200, 202, 422),
            "Let every node look now at what it should own; 202 while partitions are on their way",
            answer=cluster_answers.Cluster,
            model=Empty,
            size="body",
            writes=True,
        ),
        *(
            Route(
                "POST",
                f"/v1/cluster/{path}",
                handler,
                OPERATE,
                (200, 202, 404, 409, 422),
                summary,
                answer=cluster_answers.ClusterNode,
                model=Empty,
                size="body",
                writes=True,
            )
            for path, handler, summary in MOVES
        ),
    )
