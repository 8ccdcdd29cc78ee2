"""`ebbtide adopt` and pods that programs create for a task, a run or a user: a rule that selects the next one, too.

The labels are those of the programs' sources, named beside each.
"""

from typing import Any

import pytest
import yaml

from ebbtide.operate.adopt.facts import adopt_facts
from ebbtide.operate.adopt.text import adopt_lines
from tests.unit.operate.adoptable import Adoptable


def executors_pod(cluster: Adoptable, dag: str, number: int, **how: Any) -> None:
    """A task of the KubernetesExecutor. Source: cncf.kubernetes, `build_labels_for_k8s_executor_pod`."""
    labels = {
        "dag_id": dag,
        "task_id": f"step-{number}",
        "try_number": "1",
        "kubernetes_executor": "True",
        "airflow_version": "3.1.3",
        "airflow-worker": "42",
        "logical_date": "2026-11-20T00_00_00_plus_00_00",
        "run_id": "scheduled__2026-11-20T0000000000-1a2b3c4d5",
        **how.pop("labels", {}),
    }
    cluster.pod(f"{dag}-step-{number}-x{number}", labels=labels, restarts="Never", **how)


def charts(component: str) -> dict[str, str]:
    """Source: Airflow's chart, `pod-template-file.kubernetes-helm-yaml` for the worker's."""
    return {"tier": "airflow", "component": component, "release": "airflow"}


def operators_pod(cluster: Adoptable, dag: str, **how: Any) -> None:
    """A pod of KubernetesPodOperator. Source: cncf.kubernetes, `operators/pod.py`."""
    labels = {
        "dag_id": dag,
        "task_id": "train",
        "run_id": "manual__2026-11-20T0000000000-da4d1ce7b",
        "try_number": "1",
        "kubernetes_pod_operator": "True",
        "airflow_version": "3.1.3",
        "airflow_kpo_in_cluster": "True",
    }
    cluster.pod(f"{dag}-train", labels=labels, restarts="Never", **how)


def notebook(cluster: Adoptable, name: str, **labels: str) -> None:
    """A notebook of Kubeflow. Sources: `generateStatefulSet` of notebook-controller; the labels of a Notebook, which it
    copies to the pod, as Kubeflow's form writes them (`notebook_template.yaml`).
    """
    ones = {"statefulset": name, "notebook-name": name, "app": name, **labels}
    added = {"apps.kubernetes.io/pod-index": "0", "controller-revision-hash": f"{name}-5d4c"}
    added["statefulset.kubernetes.io/pod-name"] = f"{name}-0"
    cluster.workload("StatefulSet", name, labels=ones, extra=added, above=("Notebook", name))


def workflows_pod(cluster: Adoptable, workflow: str, *, ended: bool = False, **labels: str) -> None:
    """A step of Argo Workflows. Source: `workflowpod.go`; the controller sets `completed` when the pod has ended."""
    cluster.pod(
        f"{workflow}-step-1234567890",
        owner=("Workflow", workflow),
        labels={
            "workflows.argoproj.io/workflow": workflow,
            "workflows.argoproj.io/completed": "true" if ended else "false",
            **labels,
        },
        phase="Succeeded" if ended else "Running",
        restarts="Never",
    )


def sparks_pods(cluster: Adoptable, app: str, identifier: str) -> None:
    """Source: `Constants.scala` of Spark on Kubernetes; an executor's owner is its driver."""
    labels = {"spark-app-selector": identifier, "spark-app-name": app, "spark-version": "4.0.1"}
    cluster.pod(f"{app}-driver", labels={**labels, "spark-role": "driver"}, restarts="Never")
    executor = {**labels, "spark-role": "executor", "spark-exec-id": "1", "spark-exec-resourceprofile-id": "0"}
    cluster.pod(f"{app}-exec-1", owner=("Pod", f"{app}-driver"), labels=executor, restarts="Never")


def lines_of(cluster: Adoptable) -> list[str]:
    return adopt_lines(adopt_facts(cluster, ("team",)))  # pyright: ignore[reportArgumentType] - answers as the API does


def selectors(cluster: Adoptable) -> dict[str, dict[str, str]]:
    rules = yaml.safe_load("\n".join(lines_of(cluster)))["ebbtide:adopted"]
    assert {rule["category"] for rule in rules.values()} <= {"worker"}
    return {name: rule["selector"] for name, rule in rules.items()}


def test_tasks_of_airflow_have_one_rule_that_selects_the_next_dag_too() -> None:
    cluster = Adoptable()
    for number, dag in enumerate(("etl", "ml")):
        executors_pod(cluster, dag, number)

    assert selectors(cluster) == {"airflow-tasks": {"kubernetes_executor": "True"}}


def test_one_dag_with_a_label_of_its_own_gives_the_same_rule() -> None:
    cluster = Adoptable()
    executors_pod(cluster, "etl", 1, labels={"app": "etl", "team": "data"})

    assert selectors(cluster) == {"airflow-tasks": {"kubernetes_executor": "True"}}


def test_the_charts_labels_tell_tasks_from_the_charts_other_pods() -> None:
    cluster = Adoptable()
    cluster.workload("Deployment", "airflow-scheduler", 2, labels=charts("scheduler"), requests={"cpu": "1"})
    for number, dag in enumerate(("etl", "ml")):
        executors_pod(cluster, dag, number, labels=charts("worker"))

    lines = lines_of(cluster)

    rules = yaml.safe_load("\n".join(lines))["ebbtide:adopted"]
    assert rules["airflow-scheduler"]["selector"] == {"component": "scheduler"}
    assert rules["airflow-tasks"]["selector"] == {"component": "worker"}


def test_pods_of_airflows_operator_have_a_rule_too() -> None:
    cluster = Adoptable()
    operators_pod(cluster, "etl")
    operators_pod(cluster, "ml", phase="Succeeded")

    assert selectors(cluster) == {"airflow-pods": {"kubernetes_pod_operator": "True"}}


def test_programs_whose_pods_share_no_label_say_where_to_add_one() -> None:
    cluster = Adoptable()
    executors_pod(cluster, "etl", 1)
    operators_pod(cluster, "ml")

    (line,) = [line for line in lines_of(cluster) if "no rule for" in line]

    assert "it and team/bare pods airflow-pods have no label with different values" in line
    assert line.endswith("; give both one: to the pod template of Airflow's executor, such as app")


def test_notebooks_of_users_get_no_rule_of_one_user_and_the_way_to_one_for_all() -> None:
    cluster = Adoptable()
    for user in ("ada", "bob"):
        notebook(cluster, user)
    alone = Adoptable()
    notebook(alone, "ada")

    for each in (cluster, alone):
        lines = lines_of(each)

        assert yaml.safe_load("\n".join(lines)) == {"ebbtide:adopted": {}}
        (line,) = [line.strip() for line in lines if "no rule for" in line]
        assert line == (
            "# no rule for team/Notebook notebooks: its pods share no label that lasts (app, notebook-name and "
            "statefulset name one object, run, user or version); "
            "add one to metadata.labels of each Notebook, such as role: notebook"
        )


def test_a_label_that_all_notebooks_share_is_their_rule() -> None:
    cluster = Adoptable()
    for user in ("ada", "bob"):
        notebook(cluster, user, role="notebook")

    assert selectors(cluster) == {"notebooks": {"role": "notebook"}}


def test_a_database_of_an_operator_is_no_users_session() -> None:
    cluster = Adoptable()
    cluster.workload("StatefulSet", "kafka", 3, above=("Runner", "kafka"))

    rules = yaml.safe_load("\n".join(lines_of(cluster)))["ebbtide:adopted"]
    assert (rules["kafka"]["category"], rules["kafka"]["selector"]) == ("fixed", {"app": "kafka"})


@pytest.mark.parametrize("ended", [(True,), (False,), (True, False)])
def test_steps_of_argo_have_the_label_that_each_has_while_it_runs(ended: tuple[bool, ...]) -> None:
    cluster = Adoptable()
    for number, each in enumerate(ended):
        workflows_pod(cluster, f"etl-x{number}", ended=each, app=f"etl-{number}")

    assert selectors(cluster) == {"workflows": {"workflows.argoproj.io/completed": "false"}}


def test_drivers_and_executors_of_spark_have_a_rule_each() -> None:
    cluster = Adoptable()
    sparks_pods(cluster, "etl", "spark-12f88a73cb544ce298deba34947226a4")
    sparks_pods(cluster, "report", "spark-0c1d88a73cb544ce298deba349472200")

    assert selectors(cluster) == {
        "spark-driver": {"spark-role": "driver"},
        "spark-executor": {"spark-role": "executor"},
    }


def test_workers_of_dask_are_one_workload_though_each_has_a_deployment_of_its_own() -> None:
    """Source: `build_worker_deployment_spec` of Dask's operator, whose workers' names end with a part of a UUID."""
    cluster = Adoptable()
    for number, dask in enumerate(("etl", "etl", "report")):
        labels = {"dask.org/cluster-name": dask, "dask.org/workergroup-name": f"{dask}-default"}
        name = f"{dask}-default-worker-{number}a1b2c3d4e"
        cluster.workload("Deployment", name, labels={**labels, "dask.org/component": "worker"})

    assert selectors(cluster) == {"dask-worker": {"dask.org/component": "worker"}}


def test_pods_of_training_jobs_have_their_operators_rule() -> None:
    """Source: `common_types.go` of Kubeflow's training operator."""
    cluster, prefix = Adoptable(), "training.kubeflow.org"
    for number, job in enumerate(("bert", "llama")):
        labels = {f"{prefix}/job-name": job, f"{prefix}/replica-index": f"{number}", f"{prefix}/replica-type": "worker"}
        labels[f"{prefix}/operator-name"] = "pytorchjob-controller"
        cluster.pod(f"{job}-worker-{number}", owner=("PyTorchJob", job), labels=labels, restarts="OnFailure")

    assert selectors(cluster) == {"training": {f"{prefix}/operator-name": "pytorchjob-controller"}}


@pytest.mark.parametrize("key", ["tag", "release-name", "airflow_version", "app.kubernetes.io/version", "chart"])
def test_a_version_is_no_selector(key: str) -> None:
    cluster = Adoptable()
    cluster.workload("Deployment", "api", 2, labels={key: "v1.4.2-rc.1", "tier": "web"})

    assert yaml.safe_load("\n".join(lines_of(cluster)))["ebbtide:adopted"]["api"]["selector"] == {"tier": "web"}


def rays_pods(cluster: Adoptable, name: str, job: str) -> None:
    """A cluster that a RayJob makes for one run. Source: `utils/constant.go` of KubeRay."""
    cluster.workload("RayCluster", name, 0, above=("RayJob", job))
    for role in ("head", "worker"):
        made = {"app.kubernetes.io/created-by": "kuberay-operator", "app.kubernetes.io/name": "kuberay"}
        ray = {"ray.io/cluster": name, "ray.io/node-type": role, "ray.io/is-ray-node": "yes"}
        cluster.pod(f"{name}-{role}", owner=("RayCluster", name), labels={**made, **ray})


@pytest.mark.parametrize("names", [("etl-x7k2p",), ("etl-x7k2p", "ml-9m4zq")])
def test_heads_and_workers_of_ray_are_no_flexible_replicas_and_have_a_rule_for_each_run(names: tuple[str, ...]) -> None:
    """The loss of a head ends what its cluster runs."""
    cluster = Adoptable()
    for name in names:
        rays_pods(cluster, name, name[:-6])

    assert selectors(cluster) == {
        "ray-head": {"ray.io/node-type": "head"},
        "ray-worker": {"ray.io/node-type": "worker"},
    }


def test_workspaces_of_coder_have_one_rule_for_all_users() -> None:
    cluster = Adoptable()
    for user in ("ada", "bob"):
        labels = {"app.kubernetes.io/name": "coder-workspace", "app.kubernetes.io/instance": f"coder-{user}"}
        coder = {"com.coder.resource": "true", "com.coder.user.username": user}
        cluster.workload("Deployment", f"coder-{user}", labels={**labels, **coder})

    assert selectors(cluster) == {"coder": {"com.coder.resource": "true"}}


@pytest.mark.parametrize(
    ("kind", "changing", "lasting"),
    [
        ("FlyteWorkflow", "execution-id node-id shard-key task-name workflow-name", "team"),
        (
            "Job",
            "prefect.io/flow-name prefect.io/flow-run-name prefect.io/deployment-name prefect.io/deployment-id",
            "prefect.io/work-pool-name",
        ),
        (
            "JobSet",
            "jobset.sigs.k8s.io/global-replicas jobset.sigs.k8s.io/job-global-index jobset.sigs.k8s.io/jobset-name",
            "jobset.sigs.k8s.io/replicatedjob-name",
        ),
        ("StatefulSet", "leaderworkerset.sigs.k8s.io/group-index leaderworkerset.sigs.k8s.io/group-key", "zone"),
        ("", "kueue.x-k8s.io/pod-group-name kueue.x-k8s.io/prebuilt-workload-name", "kueue.x-k8s.io/queue-name"),
        ("Trial", "katib.kubeflow.org/experiment katib.kubeflow.org/trial", "team"),
        ("Job", "app.kubernetes.io/created-by deployed-by session-id", "team"),
        ("Runner", "tekton.dev/pipeline tekton.dev/pipelineRun tekton.dev/task", "tekton.dev/z"),
        (
            "",
            "job.runner.gitlab.com/id job.runner.gitlab.com/sha pod project.runner.gitlab.com/id",
            "manager.runner.gitlab.com/name",
        ),
        ("Deployment", "build build-number commit git-sha image-tag", "tier"),
    ],
    ids=["flyte", "prefect", "jobset", "leaderworkerset", "kueue", "katib", "people", "tekton", "gitlab", "builds"],
)
def test_what_names_one_run_is_no_selector(kind: str, changing: str, lasting: str) -> None:
    cluster = Adoptable()
    labels = {**dict.fromkeys(changing.split(), "a1"), lasting: "all"}
    if kind in ("Deployment", "StatefulSet"):
        cluster.workload(kind, "one", 2, labels=labels)
    else:
        cluster.pod("one-1", owner=(kind, "one") if kind else None, labels=labels, restarts="Never")

    (rule,) = yaml.safe_load("\n".join(lines_of(cluster)))["ebbtide:adopted"].values()
    assert rule["selector"] == {lasting: "all"}


def test_a_revision_of_knative_is_no_selector_though_app_has_its_name() -> None:
    cluster, prefix = Adoptable(), "serving.knative.dev"
    revision = {"app": "hello-00001", f"{prefix}/revision": "hello-00001", f"{prefix}/configurationGeneration": "1"}
    labels = {**revision, f"{prefix}/service": "hello"}
    cluster.workload("Deployment", "hello-00001-deployment", 2, labels=labels)

    (rule,) = yaml.safe_load("\n".join(lines_of(cluster)))["ebbtide:adopted"].values()
    assert rule["selector"] == {f"{prefix}/service": "hello"}
