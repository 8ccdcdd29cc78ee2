"""Programs that create pods per task, run or user, and the labels that all later pods of the program will have too.

Sources, read in 2026: Airflow, `build_labels_for_k8s_executor_pod` and `operators/pod.py` of its Kubernetes provider,
and its chart's pod template; Argo Workflows, `workflowpod.go`; Spark, `deploy/k8s/Constants.scala`; Dask's operator;
KubeRay, `utils/constant.go`; Coder's template for Kubernetes; Kubeflow's training operator, `common_types.go`;
Kubeflow's notebook-controller and workspace controller. JupyterHub needs no entry: its chart gives every user's server
the same `component`.
"""

from collections.abc import Mapping
from typing import NamedTuple

DEFAULT_PLACE = "to their template, such as app"


class KnownProgram(NamedTuple):
    """Pods with the label `key`."""

    key: str
    rule: str  # name of the rule; {} is replaced by the label's value
    place: str  # where a team adds a label to all these pods, and an example
    value: str | None = None  # the label's value when a pod is created; None: a role, which never changes
    also: tuple[str, ...] = ()  # further lasting labels
    kind: str = ""  # of an object of one user; the value of `key` is its name, and none of its pods' labels last


PROGRAMS = (
    KnownProgram(
        "kubernetes_executor",
        "airflow-tasks",
        "to the pod template of Airflow's executor, such as app",
        value="True",
        also=("tier", "component", "release"),
    ),
    KnownProgram(
        "kubernetes_pod_operator", "airflow-pods", "to labels of KubernetesPodOperator, such as app", value="True"
    ),
    KnownProgram(
        "workflows.argoproj.io/completed",
        "workflows",
        "to spec.podMetadata.labels in the controller's workflowDefaults, such as app",
        value="false",  # the controller writes true when the pod has ended
    ),
    KnownProgram(
        "spark-role", "spark-{}", "by spark.kubernetes.driver.label.app and spark.kubernetes.executor.label.app"
    ),
    KnownProgram("dask.org/component", "dask-{}", "to the labels of the DaskCluster, such as app"),
    KnownProgram("ray.io/node-type", "ray-{}", "to the templates of the RayCluster or RayJob, such as app"),
    KnownProgram("com.coder.resource", "coder", "to the pods of Coder's templates, such as app", value="true"),
    KnownProgram("training.kubeflow.org/operator-name", "training", "to the replicas' templates, such as app"),
    KnownProgram(
        "notebook-name", "notebooks", "to metadata.labels of each Notebook, such as role: notebook", kind="Notebook"
    ),
    KnownProgram(
        "notebooks.kubeflow.org/workspace-name",
        "workspaces",
        "to podTemplate.podMetadata.labels of the WorkspaceKind, such as role: workspace",
        kind="Workspace",
    ),
)


def program_of(labels: Mapping[str, str]) -> KnownProgram | None:
    """Return the program that creates pods with these labels."""
    return next((each for each in PROGRAMS if each.key in labels), None)


def lasting_value(program: KnownProgram, labels: Mapping[str, str]) -> str:
    return program.value or labels[program.key]
