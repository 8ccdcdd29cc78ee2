"""Every object of a cluster before and after, and a rendered stack with the controller's own account at work on it."""

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

from control_plane.driver import ControlPlane
from control_plane.stack import InstalledStack, add_group_node, install

from controllers.adapters.kube_api import Json, KubeApi
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.settings.workers import Source
from ebbtide.settings.workloads import WorkloadSettings
from ebbtide.vocabulary.controller_config import BudgetPolicy, ControllerConfig
from ebbtide.vocabulary.labels import NAMESPACE, WORKER_NAMESPACE, Category
from tests.builders_control_plane import eventually
from tests.builders_operation import Scene
from tests.builders_redis import endpoint
from tests.builders_stack import SIZE, pool_settings, stack_settings

World: TypeAlias = dict[str, Json]  # by path

NODE = "rights-flexible"
_SPACES = (NAMESPACE, WORKER_NAMESPACE)
_TOLD = {"events", "leases"}  # what the controller writes all the time, and nodes renew
_MOVING = ("managedFields", "resourceVersion", "generation")


@dataclass(frozen=True, kw_only=True)
class Site:
    """A small stack as rendered and applied: two workloads of each category, one of them a StatefulSet, two pools."""

    plane: ControlPlane
    stack: InstalledStack
    redis: EmbeddedRedis
    folder: Path

    @property
    def api(self) -> KubeApi:
        return self.plane.api

    def scene(self) -> Scene:
        """Where a controller process runs: the stack's own namespaces and account."""
        return Scene(plane=self.plane, redis=self.redis, apps=NAMESPACE, workers=WORKER_NAMESPACE, folder=self.folder)

    def config(self, **changes: Any) -> ControllerConfig:
        """The rendered one, quick, with a Redis of this machine."""
        config = self.stack.config_with(endpoint(self.redis))
        pools = tuple(replace(pool, calm=timedelta(seconds=1)) for pool in config.pools)
        return replace(config, **{"pools": pools, "sweep": timedelta(seconds=1), **changes})

    def pools(self) -> set[str]:
        """Paths, as those of the following."""
        return {deployment_path(WORKER_NAMESPACE, pool.deployment) for pool in self.stack.config.pools}

    def flexible(self) -> set[str]:
        return {budget_path(budget) for budget in self.stack.config.budgets}


def installed(plane: ControlPlane, redis: EmbeddedRedis, folder: Path) -> Site:
    """With a node for the flexible and the workers; the fixed have none, which is nothing to those who want them."""
    kinds = {"hub": (Category.FIXED, "deployment"), "store": (Category.FIXED, "stateful-set")}
    kinds |= {"api": (Category.FLEXIBLE, "deployment"), "web": (Category.FLEXIBLE, "deployment")}
    workloads = {
        name: WorkloadSettings.model_validate({"category": category, "kind": kind, "image": f"{name}:1", **SIZE})
        for name, (category, kind) in kinds.items()
    }
    prep = pool_settings().model_copy(update={"source": Source(queues=("prep",))})
    settings = stack_settings(workloads=workloads, workers={"train": pool_settings(), "prep": prep})
    stack = install(plane, settings, folder / "rendered")
    add_group_node(plane, settings, "flexible", NODE)
    return Site(plane=plane, stack=stack, redis=redis, folder=folder)


def removed(site: Site) -> None:
    site.plane.kubectl("delete", "--wait=false", "--ignore-not-found", "-f", str(site.stack.folder / "kubernetes"))

    def left() -> set[str]:
        return {item["metadata"]["name"] for item in site.api.get("/api/v1/namespaces")["items"]} & {*_SPACES}

    eventually(lambda: not left(), what="the stack's namespaces to be gone", patience=60)
    site.api.delete(f"/api/v1/nodes/{NODE}")  # not before its pods, which nobody else ends


def deployment_path(namespace: str, name: str) -> str:
    return f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"


def budget_path(budget: BudgetPolicy) -> str:
    return f"/apis/policy/v1/namespaces/{budget.namespace}/poddisruptionbudgets/{budget.name}"


# --- the whole world --------------------------------------------------------------------------------------------------


def world(api: KubeApi) -> World:
    """All that can be listed, but status, bookkeeping, events and Leases."""
    seen: World = {}
    for base, resource in _resources(api):
        for item in api.get(f"{base}/{resource['name']}").get("items", ()):
            meta, status = item["metadata"], item.pop("status", None)
            if resource["name"] in _TOLD or (status is None and "name" not in meta):
                continue
            for key in _MOVING:
                meta.pop(key, None)
            space = f"/namespaces/{meta['namespace']}" if resource["namespaced"] else ""
            seen[f"{base}{space}/{resource['name']}/{meta['name']}"] = item
    return seen


def _resources(api: KubeApi) -> Iterator[tuple[str, Json]]:
    groups = api.get("/apis")["groups"]
    for base in ("/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)):
        for resource in api.get(base)["resources"]:
            if "list" in resource["verbs"] and "/" not in resource["name"]:
                yield base, resource


def differences(before: World, after: World) -> dict[str, Any]:
    """By path: what it is now where it was another, None where it has gone."""
    return {path: after.get(path) for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def with_field(item: Json, section: str, field: str, value: object) -> Json:
    changed = deepcopy(item)
    changed.setdefault(section, {}).setdefault(field, value)
    changed[section][field] = value
    return changed


# --- what a faulty controller is told ---------------------------------------------------------------------------------


def targets(seen: World) -> dict[str, list[str]]:
    """Every object of the two namespaces that it could want, by kind."""
    kinds = {"budgets": ("poddisruptionbudgets",), "scalable": ("deployments", "statefulsets"), "pods": ("pods",)}
    kinds |= {"secrets": ("secrets",), "roles": ("roles",), "policies": ()}
    found = {kind: [path for path in seen if _is_of(path, plurals)] for kind, plurals in kinds.items()}
    found["policies"] = [path for path in seen if "validatingadmissionpolicybindings/ebbtide-" in path]
    found["collections"] = sorted({path.rpartition("/")[0] for paths in found.values() for path in paths})
    return found


def _is_of(path: str, plurals: tuple[str, ...]) -> bool:
    *_, space, plural, _ = path.split("/")
    return plural in plurals and space in _SPACES


def greedy_config(site: Site, found: Mapping[str, list[str]]) -> ControllerConfig:
    """Calls every budget flexible, and every Deployment a pool."""
    config = site.config()
    budgets = [BudgetPolicy(name=path.split("/")[-1], namespace=path.split("/")[-3]) for path in found["budgets"]]
    deployments = [path.split("/") for path in found["scalable"] if "/deployments/" in path]
    pools = [
        replace(config.pools[0], name=name, deployment=name, namespace=space, queues=(name,))
        for *_, space, _, name in deployments
    ]
    return replace(config, budgets=tuple(budgets), never_opened=(), pools=tuple(pools))


def wishes_in(log: Path) -> list[Mapping[str, Any]]:
    lines = [line for line in log.read_text().splitlines() if line.startswith('{"wish"')]
    return [json.loads(line) for line in lines]
