"""Pods with rights: a notebook hub that starts pods, and what a stack with one registers."""

from collections.abc import Mapping, Sequence
from typing import Any

from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.workloads import WorkloadSettings
from tests.builders.stack import SIZE, stack_settings

SECRET = "hub-state"
RULES: Sequence[Mapping[str, Any]] = (
    {"groups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "create", "patch", "delete"]},
    {"groups": [""], "resources": ["secrets"], "verbs": ["get", "update"], "names": [SECRET]},
    {"groups": ["batch"], "resources": ["jobs"], "verbs": ["create", "get", "delete"]},
)


def workload(category: str = "fixed", **keys: Any) -> WorkloadSettings:
    return WorkloadSettings.model_validate({"category": category, "image": "hub:1", **SIZE, **keys})


def hub(**keys: Any) -> WorkloadSettings:
    return workload(kubernetes={"rules": RULES}, **keys)


def hub_stack(**changes: Any) -> StackSettings:
    """With a hub, and beside it what has rights of another kind."""
    workloads = {
        "hub": hub(aws={"buckets": {"acme-notebooks": "read-write"}}),
        "reports": workload("flexible", replicas=2, serviceAccount="reports-reader"),
        "api": workload("flexible", replicas=2, aws={"queues": {"uploads": "send"}}),
    }
    return stack_settings(**{"workloads": workloads, **changes})
