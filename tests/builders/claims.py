"""A cluster with claims, for what is unused: an API server that answers lists of objects by kind."""

from collections.abc import Mapping, Sequence
from typing import Any

from ebbtide.operate.idle.claims import Claims
from ebbtide.vocabulary.documents import dump
from ebbtide.vocabulary.labels import CONTROLLER
from tests.builders.controllers import config
from tests.golden.commands.cluster import PlayedApi

GROUPS = {
    "/api/v1": ("pods", "replicationcontrollers", "persistentvolumeclaims"),
    "/apis/apps/v1": ("daemonsets", "deployments", "replicasets", "statefulsets"),
    "/apis/batch/v1": ("cronjobs", "jobs"),
    "/apis/ray.io/v1": ("rayclusters", "rayjobs", "rayservices"),
}
TEAM = "team"


def lists(objects: Mapping[str, Sequence[Any]] | None = None, customer: str = "acme") -> dict[str, Any]:
    """Answers by path: `objects` by kind in the namespace `TEAM`, nothing else, and the controller's config."""
    answers: dict[str, Any] = {
        f"{group}/namespaces/{namespace}/{kind}": {"items": [*(objects or {}).get(kind, ())] * (namespace == TEAM)}
        for group, kinds in GROUPS.items()
        for kind in kinds
        for namespace in ("ebbtide", TEAM)
    }
    document = {"data": {"config.json": dump(config(customer=customer))}}
    return {**answers, f"/api/v1/namespaces/ebbtide/configmaps/{CONTROLLER}": document}


def claims_in(answers: Mapping[str, Any]) -> Claims:
    return Claims(lambda: PlayedApi(answers, None), "acme")
