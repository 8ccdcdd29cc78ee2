"""A stack without a fault, and single faults by name to put into it.

Each changes a field that no other one does, and that no other one needs to be found: a pod cannot be called too large
once nobody knows which nodes it would run on.
"""

from collections.abc import Collection
from copy import deepcopy
from typing import Any

from ebbtide.settings.problems import Location

SOUND: dict[str, Any] = {
    "ebbtide:customer": "acme",
    "ebbtide:businessHours": {
        "timezone": "Europe/Berlin",
        "week": {"mon-thu": "08:00-18:00", "fri": "08:00-17:00"},
        "holidays": {"country": "DE", "subdivision": "BE"},
        "overnight": [{"pool": "train", "at": "02:00", "for": "2h", "workers": 2}],
    },
    "ebbtide:cluster": {"version": "1.35", "zones": ["a", "b"]},
    "ebbtide:nodeGroups": {
        "fixed": {"instanceTypes": ["m7i.2xlarge"], "min": 2, "max": 4},
        "flexible": {"instanceTypes": ["m7i.4xlarge", "m6i.4xlarge"], "min": 0, "max": 9},
        "gpu": {"instanceTypes": ["g5.2xlarge"], "max": 4},
        "spot": {"instanceTypes": ["m7i.2xlarge", "m6i.2xlarge", "m6a.2xlarge", "m7i-flex.2xlarge"], "max": 4},
    },
    "ebbtide:controller": {"closingGuard": "15m"},
    "ebbtide:workloads": {
        "head": {"category": "fixed", "image": "a:1", "cpu": 1, "memory": "2Gi"},
        "api": {"category": "flexible", "image": "a:1", "cpu": 1, "memory": "2Gi"},
        "hub": {"category": "flexible", "image": "a:1", "cpu": 1, "memory": "2Gi"},
    },
    "ebbtide:workers": {
        name: {
            "source": {"kind": "rq", "queues": [name]},
            "image": "a:1",
            "min": 0,
            "max": 4,
            "cpu": 4,
            "memory": "16Gi",
            "longestJob": "1h",
        }
        for name in ("train", "eval", "brief")
    },
    "ebbtide:costs": {"expectedNodeHours": {"flexible": 2000}},
}
SOUND["ebbtide:workers"]["brief"]["nodeGroup"] = "spot"

_HOURS, _GROUPS, _WORKLOADS, _WORKERS = (
    f"ebbtide:{section}" for section in ("businessHours", "nodeGroups", "workloads", "workers")
)

FAULTS: dict[str, tuple[Location, object]] = {
    "a customer in capitals": (("ebbtide:customer",), "Acme"),
    "an unknown section": (("ebbtide:nodes",), {}),
    "a zone of time without its continent": ((_HOURS, "timezone"), "Berlin"),
    "a swapped interval": ((_HOURS, "week", "mon-thu"), "18:00-08:00"),
    "a day named twice": ((_HOURS, "week", "wed"), "nine to five"),
    "an unknown day": ((_HOURS, "week", "sunday"), "08:00-09:00"),
    "an unknown subdivision": ((_HOURS, "holidays", "subdivision"), "XX"),
    "a date that is none": ((_HOURS, "holidays", "closed"), ["2026-02-30"]),
    "a plan for no pool": ((_HOURS, "overnight", 0, "pool"), "trian"),
    "a plan at no time": ((_HOURS, "overnight", 0, "at"), "25:00"),
    "a plan of more than a day": ((_HOURS, "overnight", 0, "for"), "30h"),
    "a plan for too many": ((_HOURS, "overnight", 1), {"pool": "eval", "at": "01:00", "for": "1h", "workers": 9}),
    "a version as a number": (("ebbtide:cluster", "version"), 1.35),
    "a zone twice": (("ebbtide:cluster", "zones"), ["a", "a", "B"]),
    "an unknown type": ((_GROUPS, "fixed", "instanceTypes", 0), "m7i.2xlarg"),
    "a group that may vanish and must not": ((_GROUPS, "fixed", "min"), 0),
    "a group too small for the zones": ((_GROUPS, "fixed", "max"), 1),
    "two shapes": ((_GROUPS, "flexible", "instanceTypes", 1), "m7i.2xlarge"),
    "more nodes at least than at most": ((_GROUPS, "flexible", "min"), 10),
    "a group of no kind": ((_GROUPS, "cheap"), {"instanceTypes": ["m7i.large"], "max": 4}),
    "a group with a key too many": ((_GROUPS, "flexible", "size"), 3),
    "spot of one type": ((_GROUPS, "narrow"), {"kind": "spot", "instanceTypes": ["m7i.2xlarge"], "max": 4}),
    "a disk too small for the image": ((_GROUPS, "flexible", "diskSize"), 8),
    "GPUs where none belong": ((_GROUPS, "spot", "instanceTypes", 0), "g5.2xlarge"),
    "a Redis without its address": (("ebbtide:redis",), {"kind": "url"}),
    "no closing guard": (("ebbtide:controller", "closingGuard"), "0s"),
    "a fixed workload that others scale": ((_WORKLOADS, "head", "replicasOwner"), "hpa"),
    "a fixed workload without a copy": ((_WORKLOADS, "head", "replicas"), 0),
    "a service too large": ((_WORKLOADS, "api", "cpu"), 40),
    "a service of no size": ((_WORKLOADS, "api", "memory"), "lots"),
    "a service that moves somehow": ((_WORKLOADS, "hub", "category"), "fixd"),
    "half a GPU": ((_WORKLOADS, "api", "gpu"), 0.5),
    "an unknown framework": ((_WORKERS, "train", "source", "kind"), "celery"),
    "a queue with a space": ((_WORKERS, "train", "source", "queues", 1), "a b"),
    "more workers at least than at most": ((_WORKERS, "train", "min"), 5),
    "a worker too large": ((_WORKERS, "train", "memory"), "999Gi"),
    "a worker with no CPU": ((_WORKERS, "train", "cpu"), "none"),
    "a worker on no group": ((_WORKERS, "train", "nodeGroup"), "flexibel"),
    "a misspelt key": ((_WORKERS, "train", "maxx"), 3),
    "a negative duration": ((_WORKERS, "eval", "longestJob"), "-1h"),
    "two pools on one queue": ((_WORKERS, "eval", "source", "queues", 0), "train"),
    "an image without a name": ((_WORKERS, "eval", "image"), ""),
    "a worker on fixed nodes": ((_WORKERS, "eval", "nodeGroup"), "fixed"),
    "a worker larger than its zone": ((_WORKERS, "eval", "cpu"), 400),
    "a long job on spot": ((_WORKERS, "brief", "longestJob"), "12h"),
    "a yes that is text": ((_WORKERS, "brief", "safeStop"), "yes"),
    "a pool that is no mapping": ((_WORKERS, "text"), "train"),
    "our own tag": (("ebbtide:costs", "tags"), {"ebbtide.dev/customer": "other"}),
    "hours of no group": (("ebbtide:costs", "expectedNodeHours", "flexibel"), 3),
}


def with_faults(names: Collection[str]) -> dict[str, Any]:
    """The sound stack with these faults, put in by their order above."""
    config = deepcopy(SOUND)
    for name in FAULTS:
        if name in names:
            _put(config, *FAULTS[name])
    return config


def _put(config: dict[str, Any], at: Location, value: object) -> None:
    owner: Any = config
    for part in at[:-1]:
        owner = owner[part] if isinstance(part, int) else owner.setdefault(part, {})
    if at[-1] == len(owner):  # one more entry of a list
        owner.append(deepcopy(value))
    else:
        owner[at[-1]] = deepcopy(value)
