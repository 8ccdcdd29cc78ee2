"""Manifests as teams have them in git: every kind of owner of adopted pods. Their pods are those of the rules."""

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any

from controllers.adapters.kube_api import Json
from tests.builders.control_plane import Fresh, eventually
from tests.control_plane.support.adopted import CONTAINER

PLAIN, SCALED = "plain.example.com", "scaled.example.com"
POD: Mapping[str, Any] = {"terminationGracePeriodSeconds": 0, "containers": [CONTAINER]}


def template(app: str, **spec: Any) -> Json:
    return copy.deepcopy({"metadata": {"labels": {"app": app}}, "spec": {**POD, **spec}})


def deployment(name: str, namespace: str, replicas: int, app: str | None = None) -> Json:
    return _object("apps/v1", "Deployment", name, namespace, replicas=replicas, **_selecting(app or name))


def stateful_set(name: str, namespace: str, replicas: int) -> Json:
    return _object("apps/v1", "StatefulSet", name, namespace, replicas=replicas, serviceName=name, **_selecting(name))


def daemon_set(name: str, namespace: str, app: str) -> Json:
    """With the labels of a rule, on every node."""
    return _object("apps/v1", "DaemonSet", name, namespace, **_selecting(app, tolerations=[{"operator": "Exists"}]))


def job(name: str, namespace: str, app: str) -> Json:
    return _object("batch/v1", "Job", name, namespace, template=template(app, restartPolicy="Never"))


def cron_job(name: str, namespace: str, app: str) -> Json:
    started = {"spec": {"template": template(app, restartPolicy="Never")}}
    return _object("batch/v1", "CronJob", name, namespace, schedule="0 0 1 1 *", jobTemplate=started)


def bare_pod(name: str, namespace: str, app: str) -> Json:
    pod = template(app)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, **pod["metadata"]},
        "spec": pod["spec"],
    }


def engine(name: str, namespace: str, instances: int, group: str = PLAIN) -> Json:
    """A custom resource, whose operator the test plays."""
    return _object(f"{group}/v1", "Engine", name, namespace, replicas=instances)


def engine_kind(group: str) -> Json:
    """Its `scale` is there in one of the two groups."""
    subresources = {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"engines.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": "Engine", "plural": "engines"},
            "scope": "Namespaced",
            "versions": [{**version, "subresources": subresources} if group == SCALED else version],
        },
    }


def engine_pod(name: str, owner: Json, app: str = "engine") -> Json:
    """As an operator creates it."""
    metadata = owner["metadata"]
    by = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    pod = bare_pod(name, metadata["namespace"], app)
    pod["metadata"]["labels"]["example.com/role"] = "instance"
    pod["metadata"]["ownerReferences"] = [{**by, "controller": True}]
    return pod


def add_kind(fresh: Fresh, group: str) -> None:
    """Return once the server serves it."""
    fresh.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", engine_kind(group))
    eventually(lambda: fresh.plane.api.get(f"/apis/{group}/v1")["resources"], what="the kind to be served")


def path_of(item: Json) -> str:
    version, metadata = item["apiVersion"], item["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{root}/namespaces/{metadata['namespace']}/{item['kind'].lower()}s/{metadata['name']}"


def as_git(objects: Sequence[Json]) -> str:
    """One text for kubectl."""

    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [*objects]})


def _selecting(app: str, **spec: Any) -> Json:
    return {"selector": {"matchLabels": {"app": app}}, "template": template(app, **spec)}


def _object(version: str, kind: str, name: str, namespace: str, **spec: Any) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}
