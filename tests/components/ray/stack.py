"""The demo stack with a Ray cluster that one of its pools drives."""

from functools import cache
from typing import Any

from ebbtide.settings import StackSettings, parse_stack
from tests.builders.existing import MADE_ON_EKS, stack_config
from tests.builders.recorded import record
from tests.builders.stack import Recorded

IMAGE = "registry.example.com/ml/ray:2.60.0"
NAMESPACE = "ebbtide-ray-flow"


def ray_settings(
    *, cluster: dict[str, Any] | None = None, existing: dict[str, Any] | None = None, **more: Any
) -> StackSettings:
    """`cluster` in place of sections of the Ray cluster, `more` of the stack: keys without their prefix.

    With `existing` on an existing cluster, with these keys of its section.
    """
    config = dict(stack_config("demo"))
    flow: dict[str, Any] = {
        "version": "2.60.0",
        "image": IMAGE,
        "head": {"cpu": 2, "memory": "6Gi"},
        "groups": {
            "cpu": {"max": 20, "cpu": 15, "memory": "50Gi", "idleAfter": "3m"},
            "gpu": {"max": 8, "cpu": 7, "memory": "24Gi", "gpu": 1},
        },
        "longestTask": "30m",
        **(cluster or {}),
    }
    config["ebbtide:ray"] = {"flow": flow}
    config["ebbtide:workers"] = {
        **config["ebbtide:workers"],
        "drive": {
            "source": {"queues": ["drive"]},
            "image": IMAGE,
            "max": 3,
            "cpu": 1,
            "memory": "2Gi",
            "longestJob": "12h",
            "ray": "flow",
        },
    }
    if existing is not None:
        config = {key: value for key, value in config.items() if key not in MADE_ON_EKS}
        config["ebbtide:cluster"] = {"kind": "existing", "context": "onprem", **existing}
    config |= {f"ebbtide:{key}": value for key, value in more.items()}
    return parse_stack(config, stack="demo", file="demo.yaml")


@cache
def ray_stack() -> Recorded:
    return Recorded(record(ray_settings()))
