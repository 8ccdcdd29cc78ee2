"""Manifests of our own with the labels, owners and budgets of common charts; the page on charts names their versions.

Namespaces are those of the page. A chart's budgets are shown as they are where the team has not switched them off.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]

CONTAINER = {"name": "main", "image": "any", "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}}}
JUPYTER, AIRFLOW, LOGGING = "jupyter", "airflow", "logging"


def jupyterhub(component: str) -> Json:
    """The labels that the chart selects by, and the same with other keys."""
    modern = {"component": component, "name": "jupyterhub", "instance": "hub"}
    return {**jupyterhub_selector(component), **{f"app.kubernetes.io/{key}": value for key, value in modern.items()}}


def jupyterhub_selector(component: str) -> Json:
    return {"component": component, "app": "jupyterhub", "release": "hub"}


def airflow(component: str) -> Json:
    return {"tier": "airflow", "component": component, "release": "airflow"}


FLUENT_BIT = {"app.kubernetes.io/name": "fluent-bit", "app.kubernetes.io/instance": "fluent-bit"}
MLFLOW = {"app": "mlflow", "app.kubernetes.io/name": "mlflow", "app.kubernetes.io/instance": "mlflow"}
TASK = {**airflow("worker"), "dag_id": "nightly", "task_id": "train", "kubernetes_executor": "True", "try_number": "1"}
INSTANCE = {
    "cnpg.io/cluster": "main",
    "cnpg.io/podRole": "instance",
    "cnpg.io/instanceName": "main-1",
    "cnpg.io/instanceRole": "primary",
}
BOOTSTRAP = {"cnpg.io/cluster": "main", "cnpg.io/jobRole": "initdb", "cnpg.io/instanceName": "main-1"}
"""A pod of the Job that initializes an instance's disk."""


def workloads() -> list[Json]:
    """The owners and bare pods of all charts."""
    spawned = jupyterhub("singleuser-server") | {"hub.jupyter.org/username": "ada"}
    return [
        deployment("hub", JUPYTER, jupyterhub("hub"), strategy={"type": "Recreate"}),
        deployment("proxy", JUPYTER, jupyterhub("proxy"), strategy={"type": "Recreate"}),
        daemon_set("continuous-image-puller", JUPYTER, jupyterhub("continuous-image-puller")),
        bare_pod("jupyter-ada", JUPYTER, spawned, restartPolicy="OnFailure"),
        deployment("mlflow", "mlflow", MLFLOW, replicas=2),
        deployment("airflow-scheduler", AIRFLOW, airflow("scheduler"), replicas=2),
        deployment("airflow-api-server", AIRFLOW, airflow("api-server"), replicas=2),
        deployment("airflow-dag-processor", AIRFLOW, airflow("dag-processor")),
        deployment("airflow-triggerer", AIRFLOW, airflow("triggerer"), replicas=2),
        # The chart renders empty values, and the executor sends them.
        bare_pod(
            "nightly-train-x1", AIRFLOW, TASK, restartPolicy="Never", nodeSelector={}, affinity={}, tolerations=[]
        ),
        daemon_set("fluent-bit", LOGGING, FLUENT_BIT),
        bare_pod("main-1", "postgres", INSTANCE),
        bare_pod("main-1-initdb", "postgres", BOOTSTRAP, restartPolicy="Never"),
    ]


def budgets() -> Mapping[str, Json]:
    """The budgets that the charts create unless their values say otherwise, or if they say so; by name."""
    made = [
        budget("hub", JUPYTER, jupyterhub_selector("hub"), minAvailable=1),
        budget("proxy", JUPYTER, jupyterhub_selector("proxy"), minAvailable=1),
        budget("user-scheduler", JUPYTER, jupyterhub_selector("user-scheduler"), maxUnavailable=1),
        budget("user-placeholder", JUPYTER, jupyterhub_selector("user-placeholder"), minAvailable=0),
        budget("airflow-scheduler-pdb", AIRFLOW, airflow("scheduler"), maxUnavailable=1),
        budget("airflow-worker-pdb", AIRFLOW, airflow("worker"), maxUnavailable=1),
        budget("main", "postgres", {"cnpg.io/cluster": "main", "cnpg.io/instanceRole": "replica"}, minAvailable=1),
        budget(
            "main-primary", "postgres", {"cnpg.io/cluster": "main", "cnpg.io/instanceRole": "primary"}, minAvailable=1
        ),
    ]
    return {each["metadata"]["name"]: each for each in made}


def deployment(name: str, namespace: str, labels: Json, replicas: int = 1, **spec: Any) -> Json:
    return _owner("Deployment", name, namespace, labels, {"replicas": replicas, **spec})


def daemon_set(name: str, namespace: str, labels: Json) -> Json:
    return _owner("DaemonSet", name, namespace, labels, {}, tolerations=[{"operator": "Exists"}])


def bare_pod(name: str, namespace: str, labels: Json, **spec: Any) -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": _named(name, namespace, labels), "spec": _pod(**spec)}


def budget(name: str, namespace: str, labels: Json, **numbers: int) -> Json:
    spec = {"selector": {"matchLabels": labels}, **numbers}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _named(name, namespace, labels),
        "spec": spec,
    }


def moved(objects: Sequence[Json], namespaces: Mapping[str, str]) -> list[Json]:
    """The same objects in other namespaces, which tests create."""
    return [
        each | {"metadata": each["metadata"] | {"namespace": namespaces[each["metadata"]["namespace"]]}}
        for each in objects
    ]


def as_list(objects: Sequence[Json]) -> str:
    """One text for kubectl."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [*objects]})


def _owner(kind: str, name: str, namespace: str, labels: Json, spec: Json, **pod: Any) -> Json:
    template = {"metadata": {"labels": labels}, "spec": _pod(**pod)}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": _named(name, namespace, labels),
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


def _named(name: str, namespace: str, labels: Json) -> Json:
    return {"name": name, "namespace": namespace, "labels": dict(labels)}


def _pod(**spec: Any) -> Json:
    return {"terminationGracePeriodSeconds": 0, "containers": [CONTAINER], **spec}
