"""Claims of the cluster that something still uses, although no pod mounts them.

A StatefulSet with 0 replicas, a Deployment that sleeps and a CronJob between two runs have no pods, but their next pod
mounts the claim. So the templates are read, of Kubernetes' own kinds and of KubeRay's. Other custom resources have no
common form: a claim that one of them owns is not judged. A ReplicaSet of a Deployment is history, and a Job or RayJob
that ended starts no pod again.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from controllers.adapters.kube_api import ApiError
from ebbtide.operate.api import CannotOperate, OperatorApi, controller_config_of, failure_text, items, require_customer
from ebbtide.operate.objects import Document, at, rows_at
from ebbtide.operate.owners import controller_of
from ebbtide.settings.fragment.values import inside
from ebbtide.vocabulary.labels import NAMESPACE

_CLAIMS = "/api/v1/namespaces/{}/persistentvolumeclaims"
_LISTS: Mapping[str, Sequence[str]] = {
    "/api/v1": ("pods", "replicationcontrollers"),
    "/apis/apps/v1": ("daemonsets", "deployments", "replicasets", "statefulsets"),
    "/apis/batch/v1": ("cronjobs", "jobs"),
    "/apis/ray.io/v1": ("rayclusters", "rayjobs", "rayservices"),
}
_READ_OWNERS = re.compile(r"(?:v1|apps/v1|batch/v1|ray\.io/v1(?:alpha1|beta1)?)")
_ENDED = ("Complete", "Failed")
"""Conditions of Jobs, and KubeRay's terminal values of a RayJob's `jobDeploymentStatus`."""


@dataclass(frozen=True, slots=True)
class Used:
    """A pod may mount the claim."""


@dataclass(frozen=True, slots=True)
class Unused:
    evidence: str


@dataclass(frozen=True, slots=True)
class Undecided:
    why: str


ClaimState: TypeAlias = Used | Unused | Undecided


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceClaims:
    """`named`: by templates. `sets`: beginnings of the claims of StatefulSets. `owners`: of the claims that exist."""

    named: frozenset[str]
    sets: frozenset[str]
    owners: Mapping[str, str]

    def state(self, name: str) -> ClaimState:
        beginning, _, ordinal = name.rpartition("-")
        if name in self.named or (ordinal.isdecimal() and beginning in self.sets):
            return Used()
        if name not in self.owners:
            return Unused("its claim is gone")
        if owner := self.owners[name]:
            return Undecided(f"belongs to {owner}, a custom resource that was not read")
        return Unused("no pod template names its claim; custom resources were not read")


def claims_of(objects: Sequence[Document], claims: Sequence[Document]) -> NamespaceClaims:
    """Read one namespace's objects of the kinds that have pod templates, and its claims. Pure."""
    current = [item for item in objects if not _starts_no_pod(item)]
    templates = [(item, rows_at(item, "spec", "volumeClaimTemplates")) for item in current]
    return NamespaceClaims(
        named=frozenset(
            str(at(value, "claimName"))
            for item in current
            for _, key, value in inside(item.get("spec"))
            if key == "persistentVolumeClaim"
        ),
        sets=frozenset(
            f"{at(template, 'metadata', 'name')}-{at(item, 'metadata', 'name')}"
            for item, volumes in templates
            for template in volumes
        ),
        owners={str(at(claim, "metadata", "name")): next(_foreign_owners(claim), "") for claim in claims},
    )


def _starts_no_pod(item: Document) -> bool:
    conditions = [
        condition.get("type")
        for condition in rows_at(item, "status", "conditions")
        if condition.get("status") == "True"
    ]
    ended = at(item, "status", "phase") in ("Succeeded", "Failed") or any(kind in _ENDED for kind in conditions)
    ended = ended or at(item, "status", "jobDeploymentStatus") in _ENDED
    return ended or controller_of(item).kind == "Deployment"


def _foreign_owners(claim: Document) -> Iterator[str]:
    for owner in rows_at(claim, "metadata", "ownerReferences"):
        if not _READ_OWNERS.fullmatch(str(owner.get("apiVersion"))):
            yield f"{owner.get('kind')} {owner.get('name')}"


class Claims:
    """Reads a namespace once, when the state of one of its claims is needed."""

    def __init__(self, connected: Callable[[], OperatorApi], customer: str) -> None:
        self._connected, self._customer = connected, customer
        self._api: OperatorApi | None = None
        self._read: dict[str, NamespaceClaims | Undecided] = {}

    def state(self, namespace: str, name: str) -> ClaimState:
        if namespace not in self._read:
            self._read[namespace] = self._namespace(namespace)
        claims = self._read[namespace]
        return claims if isinstance(claims, Undecided) else claims.state(name)

    def _namespace(self, namespace: str) -> NamespaceClaims | Undecided:
        try:
            api = self._stacks_api()
            objects = [
                item
                for group, kinds in _LISTS.items()
                for kind in kinds
                for item in _items(api, f"{group}/namespaces/{namespace}/{kind}")
            ]
            return claims_of(objects, items(api, _CLAIMS.format(namespace)))
        except CannotOperate as error:
            return Undecided(str(error))
        except ApiError as error:
            return Undecided(failure_text(self._api, error) if self._api is not None else str(error))

    def _stacks_api(self) -> OperatorApi:
        """Connect once. In another customer's cluster each claim would look gone."""
        if self._api is None:
            api = self._connected()
            require_customer(controller_config_of(api, NAMESPACE), self._customer)
            self._api = api
        return self._api


def _items(api: OperatorApi, path: str) -> list[Document]:
    try:
        return [*items(api, path)]
    except ApiError as error:
        if error.status == 404 and path.startswith("/apis/ray.io/"):
            return []  # a cluster without KubeRay
        raise
