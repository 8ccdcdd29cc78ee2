"""Stacks on a cluster that is there already: small ones, and the twin of one on EKS."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import yaml

from ebbtide.settings import StackSettings, parse_stack
from tests.builders.real_size import real_size
from tests.builders.settings import shortest
from tests.paths import STACK_FILES

CLUSTER_ID = "3f1c2a9e-6b0d-4c57-9f5e-0a4d8c7b6e21"
MADE_ON_EKS = ("ebbtide:network", "ebbtide:nodeGroups", "ebbtide:costs")


def onprem(cluster: str = "", **changes: str) -> str:
    """The shortest file with an existing cluster; `cluster` is added inside its mapping."""
    keys = f"kind: existing, context: onprem{', ' + cluster if cluster else ''}"
    return shortest(**{**changes, "more": f"ebbtide:cluster: {{ {keys} }}\n{changes.get('more', '')}"})


def stack_of(cluster: str = "", **changes: str) -> StackSettings:
    """As `onprem`, read."""
    config = cast("dict[str, Any]", yaml.safe_load(onprem(cluster, **changes))["config"])
    return parse_stack(config, stack="onprem", file="onprem.yaml")


def stack_config(stack: str) -> dict[str, Any]:
    text = (STACK_FILES / f"Pulumi.{stack}.yaml").read_text(encoding="utf-8")
    return cast("dict[str, Any]", yaml.safe_load(text)["config"])


def twins(stack: str, node_selectors: Mapping[str, Mapping[str, str]]) -> tuple[StackSettings, StackSettings]:
    """A shipped stack on EKS, and the same customer's on an existing cluster; Redis is where both can have it."""
    config = stack_config(stack)
    if config.get("ebbtide:redis", {}).get("kind") == "elasticache":
        config["ebbtide:redis"] = {"kind": "in-cluster"}
    cluster = {"kind": "existing", "context": "onprem", "nodeSelectors": node_selectors}
    moved = {key: value for key, value in config.items() if key not in MADE_ON_EKS} | {"ebbtide:cluster": cluster}
    return (
        parse_stack(config, stack=stack, file=f"{stack}.yaml"),
        parse_stack(moved, stack=stack, file=f"{stack}.yaml"),
    )


def with_everything() -> StackSettings:
    """On an existing cluster, with whatever a stack can ask of one: each kind of object that it can be made of."""
    config = real_size(workloads=8, pools=6)
    for key in MADE_ON_EKS:
        config.pop(key, None)
    services = config["ebbtide:workloads"]
    for pod in (*services.values(), *config["ebbtide:workers"].values()):
        pod.pop("aws", None)
        for volume in pod.get("volumes", {}).values():
            volume.pop("snapshots", None)
    reached = {"host": "part.example.com", "class": "nginx"}
    hub = {"category": "fixed", "image": "hub:1", "cpu": 1, "memory": "1Gi", "ports": {"http": 80}, "ingress": reached}
    rights = {"rules": [{"groups": [""], "resources": ["pods"], "verbs": ["create", "delete"]}]}
    services["hub"] = {**hub, "ingress": {**reached, "host": "hub.example.com"}, "kubernetes": rights}
    services["service-01"]["ingress"] = {**reached, "port": "http"}
    job = {"image": "db:1", "cpu": 1, "memory": "1Gi", "longestRun": "1h"}
    more: dict[str, Any] = {
        "ebbtide:jobs": {"migrate": job},
        "ebbtide:cronJobs": {"report": {**job, "schedule": "0 3 * * *"}},
    }
    rule = {"namespace": "team", "category": "flexible", "cpu": 1, "memory": "1Gi"}
    more["ebbtide:adopted"] = {
        "site": {**rule, "selector": {"app": "site"}, "replicas": 2},
        "log": {**rule, "selector": {"app": "log"}, "pods": 3},
    }
    cluster = {"kind": "existing", "context": "onprem", "nodePools": {"flexible": ["general"], "gpu": ["gpu"]}}
    config |= {"ebbtide:cluster": cluster, **more}
    return parse_stack(config, stack="acme", file="acme.yaml")


def written(text: str, folder: Path) -> str:
    path = folder / "Pulumi.onprem.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)
