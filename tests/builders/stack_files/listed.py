"""Stack files by what is in them, listed and not drawn: one thing alone, all of them, and all but one.

What a stack lacks decides which objects are rendered with an empty list in them, and chance hardly ever leaves out all
of a kind. Each shape is there on EKS and on a cluster that exists. `tests/builders/generated.py` draws the rest.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.builders.generated import text_of

_SIZE: Mapping[str, Any] = {"cpu": 1, "memory": "2Gi"}
_FIRST: Mapping[str, Any] = {
    "ebbtide:customer": "acme",
    "ebbtide:businessHours": {"timezone": "Europe/Berlin", "week": {"mon-fri": "08:00-18:00"}},
}
_CLUSTERS: Mapping[str, Mapping[str, Any]] = {
    "eks": {"aws:region": "eu-central-1"},
    "existing": {"ebbtide:cluster": {"kind": "existing", "context": "onprem"}},
}

_RIGHTS: Mapping[str, Any] = {
    "rules": [{"groups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "create", "delete"]}]
}
_SERVED: Mapping[str, Any] = {
    **_SIZE,
    "image": "example.com/embed:1",
    "ports": {"http": 8000},
    "port": "http",
    "probes": {"readiness": {"http": "/healthz", "port": "http"}},
    "longestRequest": "30s",
}
_PARTS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "workers": {
        "ebbtide:workers": {
            "train": {
                **_SIZE,
                "source": {"queues": ["train"]},
                "image": "example.com/train:1",
                "max": 4,
                "longestJob": "12h",
            }
        }
    },
    "flexible-workloads": {
        "ebbtide:workloads": {"api": {**_SIZE, "category": "flexible", "image": "example.com/api:1", "replicas": 2}}
    },
    "fixed-workloads": {"ebbtide:workloads": {"hub": {**_SIZE, "category": "fixed", "image": "example.com/hub:1"}}},
    "starters": {
        "ebbtide:workloads": {
            "spawner": {**_SIZE, "category": "fixed", "image": "example.com/spawner:1", "kubernetes": _RIGHTS}
        }
    },
    "services": {
        "ebbtide:services": {"embed": {**_SERVED, "scale": {"metrics": {"cpu": "70%"}, "min": 2, "max": 6}}},
    },
    "floors": {
        "ebbtide:services": {
            "rank": {
                **_SERVED,
                "scale": {"metrics": {"cpu": "70%"}, "min": 2, "max": 6, "floor": "calendar", "open": 4},
            }
        },
    },
    "routes": {
        "ebbtide:services": {
            "chat": {
                **_SERVED,
                "route": {"host": "models.example.com", "path": "/chat"},
                "scale": {"metrics": {"inFlight": 4}, "min": 2, "max": 6},
            }
        },
        "ebbtide:monitoring": {"prometheus": "bundled"},
    },
    "ray": {
        "ebbtide:ray": {
            "flow": {
                "version": "2.60.0",
                "image": "example.com/ray:2.60.0",
                "head": {"cpu": 1, "memory": "2Gi"},
                "groups": {"cpu": {**_SIZE, "max": 4}},
                "longestTask": "30m",
            }
        }
    },
}
_EXTRAS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "jobs": {"ebbtide:jobs": {"migrate": {**_SIZE, "image": "example.com/migrate:1", "longestRun": "1h"}}},
    "cron-jobs": {
        "ebbtide:cronJobs": {
            "report": {**_SIZE, "image": "example.com/report:1", "longestRun": "1h", "schedule": "0 3 * * *"}
        }
    },
    "prometheus": {"ebbtide:monitoring": {"prometheus": "bundled"}},
}
"""What runs beside something else: a stack of these alone is refused."""

_ALL = {**_PARTS, **_EXTRAS}
_ONLY_EXISTING: Mapping[str, Any] = {"ebbtide:serving": {"gatewayClass": "eg", "keda": True}}
"""What a route needs where the file cannot bring it."""


def shapes() -> dict[str, str]:
    """Each part alone, with each extra, and all of it; by name and cluster, as the text of a stack file."""
    alone = {f"only-{name}": [name] for name in _PARTS}
    beside = {f"workloads-and-{name}": ["flexible-workloads", name] for name in _EXTRAS}
    return _on_each({**alone, **beside, "everything": [*_ALL]})


def removals() -> dict[str, str]:
    """What is left of `everything` once a part is taken out of it, or all parts of one section."""
    less = {f"without-{name}": [other for other in _ALL if other != name] for name in _ALL if name != "prometheus"}
    for section in ("workloads", "services"):
        less[f"without-{section}"] = [name for name in _ALL if f"ebbtide:{section}" not in _ALL[name]]
    return _on_each(less)


def config_of(cluster: str, parts: Sequence[str]) -> dict[str, Any]:
    """The config of a stack with these parts on that kind of cluster."""
    config: dict[str, Any] = {**_FIRST, **_CLUSTERS[cluster]}
    for name in parts:
        for section, entries in _ALL[name].items():
            config[section] = {**config.get(section, {}), **entries}
    return {**config, **_ONLY_EXISTING} if cluster == "existing" and "routes" in parts else config


def _on_each(kinds: Mapping[str, Sequence[str]]) -> dict[str, str]:
    return {
        f"{name}-on-{cluster}": text_of(config_of(cluster, parts))
        for name, parts in kinds.items()
        for cluster in _CLUSTERS
    }
