"""A stack file of the size that a platform really has: 60 workloads and 12 pools that use the whole pod section.

Every key of the section stands somewhere, so that what judges or shows a stack has seen each.
"""

from copy import deepcopy
from typing import Any

import yaml

WORKLOADS = 60
POOLS = 12

_FILES = {"app.toml": "workers = 4\ndebug = false\n", "logging.yaml": "version: 1\n"}

_SHIPPER = {
    "name": "log-shipper",
    "image": "registry.example.com/ml/log-shipper:2.1.0",
    "restartPolicy": "Always",
    "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
}


def real_size(customer: str = "acme", *, workloads: int = WORKLOADS, pools: int = POOLS) -> dict[str, Any]:
    """The file's `config`."""
    return {
        "ebbtide:customer": customer,
        "ebbtide:businessHours": {"timezone": "Europe/Berlin", "week": {"mon-fri": "08:00-18:00"}},
        "ebbtide:cluster": {"zones": ["a", "b", "c"]},
        "ebbtide:nodeGroups": {
            "fixed": {"instanceTypes": ["m7i.4xlarge"], "min": 3, "max": 9, "diskSize": 100},
            "flexible": {"max": 60, "diskSize": 100},
            "large": {"kind": "flexible", "instanceTypes": ["m7i.8xlarge"], "max": 20, "diskSize": 200},
            "gpu": {"instanceTypes": ["g5.2xlarge"], "max": 12},
        },
        "ebbtide:workloads": dict(map(_workload, range(workloads))),
        "ebbtide:workers": dict(map(_pool, range(pools))),
    }


def real_size_text(customer: str = "acme", **sizes: int) -> str:
    return yaml.safe_dump({"config": real_size(customer, **sizes)}, sort_keys=False)


def _workload(number: int) -> tuple[str, dict[str, Any]]:
    """Two of three are flexible Deployments; the others fixed, each second of those with disks."""
    entry: dict[str, Any] = {
        **_pod(number),
        "arch": "any",
        "cpu": "250m",
        "memory": "512Mi",
        "replicas": 1 + number % 3,
    }
    entry["probes"]["readiness"] = {"http": "/healthz", "port": "http", "every": "5s"}
    if number % 3:
        return f"service-{number:02}", {**entry, "category": "flexible", "priority": 1000 + number % 4}
    if number % 2:
        return f"hub-{number:02}", {**entry, "category": "fixed"}
    disks = {
        "data": {"perPod": "20Gi", "class": "gp3", "at": "/data"},
        "log": {"perPod": "5Gi", "at": "/log", "snapshots": {"every": "24h", "keep": 7}},
    }
    volumes: dict[str, Any] = {**entry["volumes"], **disks}
    return f"store-{number:02}", {**entry, "category": "fixed", "kind": "stateful-set", "volumes": volumes}


def _pool(number: int) -> tuple[str, dict[str, Any]]:
    size = {
        "cpu": 1 + number % 4,
        "memory": "4Gi",
        **({"gpu": {"count": 1, "memory": "16Gi"}} if number % 6 == 5 else {}),
    }
    jobs = {"source": {"queues": [f"jobs-{number:02}"]}, "max": 4 + number, "longestJob": "12h", "safeStop": True}
    return f"pool-{number:02}", {**_pod(number), **size, **jobs, "priority": 10}


def _pod(number: int) -> dict[str, Any]:
    return {
        "image": f"registry.example.com/ml/part-{number:02}:1.4.{number}",
        "command": ["python", "-m", "part"],
        "args": ["--workers=4", f"--number={number}"],
        "env": {
            "LOG_LEVEL": "info",
            "PART": {"value": str(number)},
            "DB_PASSWORD": {"secret": "db-login", "key": "password"},
            "FLAG": {"configMap": "flags", "key": f"flag-{number}"},
            "POD": {"field": "metadata.name"},
        },
        "envFrom": [{"secret": "common", "prefix": "COMMON_"}, {"configMap": "defaults"}],
        "ports": {"http": 8080, "metrics": 9090},
        "probes": {
            "liveness": {"tcp": "metrics", "every": "30s", "timeout": "2s", "failures": 5},
            "startup": {"exec": ["cat", "/tmp/started"]},
        },
        "limits": {"cpu": "4", "memory": "8Gi"},
        "ephemeralStorage": "8Gi",
        "shm": "128Mi",
        "volumes": {
            "cache": {"scratch": "4Gi", "at": "/scratch"},
            "models": {"claim": "models-efs", "at": "/models", "readOnly": True, "shared": True},
            "conf": {"files": dict(_FILES), "at": "/etc/part"},
            "tls": {"secret": "part-tls", "at": "/etc/tls"},
            "flags": {"configMap": "flags", "at": "/etc/flags"},
        },
        "user": 2000,
        "writableRoot": False,
        "labels": {"team": f"team-{number % 5}"},
        "annotations": {"prometheus.io/scrape": "true"},
        **_account(number),
        "pod": {
            "hostAliases": [{"ip": "10.0.0.9", "hostnames": ["licences.example.com"]}],
            "initContainers": [deepcopy(_SHIPPER)],  # YAML would write an alias for the same one again
        },
    }


def _account(number: int) -> dict[str, Any]:
    if number % 4 == 0:
        return {"aws": {"buckets": {"acme-data": "read"}, "queues": {"uploads": "receive"}}}
    return {"serviceAccount": f"part-{number:02}"} if number % 4 == 1 else {}
