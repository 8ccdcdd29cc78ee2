"""Programs that create pods for a task, a run or a user, and the labels that the next of these pods will have, too.

Sources, read in 2026: Airflow, `build_labels_for_k8s_executor_pod` and `operators/pod.py` of its Kubernetes provider,
and its chart's pod template; Argo Workflows, `workflowpod.go`; Spark, `deploy/k8s/Constants.scala`; Dask's operator;
KubeRay, `utils/constant.go`; Coder's template for Kubernetes; Kubeflow's training operator, `common_types.go`;
Kubeflow's notebook-controller and workspace controller. JupyterHub needs no entry: its chart gives every user's server
the same `component`.
"""

from collections.abc import Mapping
from typing import NamedTuple

DEFAULT_PLACE = "to their template, such as app"


class Program(NamedTuple):
    """Pods with the label `key`."""

    key: str
    rule: str  # name of the rule; {} is replaced by the label's value
    place: str  # where a team adds a label to all these pods, and an example
    value: str | None = None  # the label's value when a pod is created; None: a role, which never changes
    also: tuple[str, ...] = ()  # further lasting labels
    kind: str = ""  # of an object that belongs to one user; `key` has its name, and no label of its pods lasts


PROGRAMS = (
    Program(
        "kubernetes_executor",
        "airflow-tasks",
        "to the pod template of Airflow's executor, such as app",
        value="True",
        also=("tier", "component", "release"),
    ),
    Program("kubernetes_pod_operator", "airflow-pods", "to labels of KubernetesPodOperator, such as app", value="True"),
    Program(
        "workflows.argoproj.io/completed",
        "workflows",
        "to spec.podMetadata.labels in the controller's workflowDefaults, such as app",
        value="false",  # the controller writes true when the pod has ended
    ),
    Program("spark-role", "spark-{}", "by spark.kubernetes.driver.label.app and spark.kubernetes.executor.label.app"),
    Program("dask.org/component", "dask-{}", "to the labels of the DaskCluster, such as app"),
    Program("ray.io/node-type", "ray-{}", "to the templates of the RayCluster or RayJob, such as app"),
    Program("com.coder.resource", "coder", "to the pods of Coder's templates, such as app", value="true"),
    Program("training.kubeflow.org/operator-name", "training", "to the replicas' templates, such as app"),
    Program(
        "notebook-name", "notebooks", "to metadata.labels of each Notebook, such as role: notebook", kind="Notebook"
    ),
    Program(
        "notebooks.kubeflow.org/workspace-name",
        "workspaces",
        "to podTemplate.podMetadata.labels of the WorkspaceKind, such as role: workspace",
        kind="Workspace",
    ),
)


def program_of(labels: Mapping[str, str]) -> Program | None:
    """Return the program that creates pods with these labels."""
    return next((each for each in PROGRAMS if each.key in labels), None)


def lasting_value(program: Program, labels: Mapping[str, str]) -> str:
    return program.value or labels[program.key]
