"""Permissions of a pod in the stack file: on AWS, by an existing account, and at the API server."""

from pathlib import Path

import pytest

from ebbtide.settings.capacity.process_documents import controller_config
from ebbtide.settings.sections.pods.aws import BucketAccess, QueueAccess
from tests.builders.components import REDIS
from tests.builders.existing import onprem
from tests.builders.settings import Told, loaded, problem_of, problems_of, shortest

POD = 'image: "hub:1", cpu: 1, memory: 1Gi'
MANAGE_PODS = 'groups: [""], resources: [pods], verbs: [get, list, watch, create, delete]'


def workload(keys: str, *, name: str = "hub", category: str = "fixed") -> str:
    return shortest(more=f"ebbtide:workloads: {{ {name}: {{ category: {category}, {POD}, {keys} }} }}")


def with_rule(rule: str) -> str:
    return workload(f"kubernetes: {{ rules: [ {{ {rule} }} ] }}")


def fault_in(text: str, folder: Path) -> Told:
    return problem_of(text, folder)


# --- on AWS -----------------------------------------------------------------------------------------------------------


def test_buckets_queues_and_policies_are_read(tmp_path: Path) -> None:
    arn = "arn:aws:iam::123456789012:policy/api"
    text = shortest(
        train=f"aws: {{ buckets: {{ acme-data: read-write }}, queues: {{ up.fifo: both }}, policies: [{arn}] }}"
    )

    rights = loaded(text, tmp_path).workers["train"].aws

    assert rights is not None
    assert rights.buckets == {"acme-data": BucketAccess.READ_WRITE}
    assert (rights.queues, rights.policies) == ({"up.fifo": QueueAccess.BOTH}, (arn,))


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("buckets: { Data: read }", ("bucket.form", "aws.buckets.Data:")),
        ("buckets: { ab: read }", ("bucket.form",)),
        ("buckets: { a..b: read }", ("bucket.form",)),
        ("buckets: { 10.0.0.1: read }", ("bucket.form",)),
        ('buckets: { "arn:aws:s3:::data": read }', ("bucket.form", "without the ARN")),
        ("buckets: { data--use1-az4--x-s3: read }", ("bucket.reserved",)),
        ("buckets: { xn--data: read }", ("bucket.reserved",)),
        ("buckets: { acme-data: delete }", ("choice.unknown", "aws.buckets.acme-data:", "read-write")),
        ("buckets: { acme-data: raed }", ("choice.unknown", "did you mean read?")),
        ('queues: { "https://sqs.eu/1/up": send }', ("sqs-queue.form",)),
        ("queues: { up: write }", ("choice.unknown", "send or receive or both")),
        ("policies: [AmazonS3ReadOnlyAccess]", ("aws-policy.form", "aws.policies[0]:")),
        ("policies: [arn:aws:iam::aws:policy/AdministratorAccess]", ("aws-policy.everything",)),
        ("policies: [arn:aws:iam::aws:policy/A, arn:aws:iam::aws:policy/A]", ("list.twice",)),
        ("role: api", ("aws-role.form", "pods.eks.amazonaws.com")),
        ("role: arn:aws:iam::123456789012:user/api", ("aws-role.form",)),
        (f"role: arn:aws:iam::123456789012:role/{'r' * 65}", ("aws-role.form",)),
        (f"policies: [arn:aws:iam::123456789012:policy/{'p' * 129}]", ("aws-policy.form",)),
        ("", ("aws.nothing",)),
        ("role: arn:aws:iam::123456789012:role/a, buckets: { acme-data: read }", ("aws-role.not-alone", "aws.role:")),
    ],
)
def test_a_right_on_aws_that_nobody_could_give_is_refused_at_its_key(
    keys: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    assert fault_in(shortest(train=f"aws: {{ {keys} }}"), tmp_path).tells(*words)


def test_eleven_policies_are_more_than_a_role_takes(tmp_path: Path) -> None:
    arns = ", ".join(f"arn:aws:iam::aws:policy/P{number}" for number in range(11))

    assert fault_in(shortest(train=f"aws: {{ policies: [{arns}] }}"), tmp_path).tells("aws-policies.too-many", "11")


def test_on_an_existing_cluster_an_account_of_others_is_the_way(tmp_path: Path) -> None:
    problem = fault_in(onprem(train="aws: { buckets: { acme-data: read } }"), tmp_path)

    assert problem.tells("aws.existing-cluster", "ebbtide:workers.train.aws:", "serviceAccount: train")
    assert loaded(onprem(train="serviceAccount: reports"), tmp_path).workers["train"].service_account == "reports"


# --- accounts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("serviceAccount: default", ("service-account.refused",)),
        ("serviceAccount: ebbtide-controller", ("service-account.refused",)),
        ("serviceAccount: Reports", ("service-account.form",)),
        ("serviceAccount: reports, aws: { buckets: { acme-data: read } }", ("service-account.second",)),
        (f"serviceAccount: reports, kubernetes: {{ rules: [ {{ {MANAGE_PODS} }} ] }}", ("service-account.second",)),
    ],
)
def test_a_pod_has_one_account_and_none_that_is_anybodys(keys: str, words: tuple[str, ...], tmp_path: Path) -> None:
    assert fault_in(workload(keys), tmp_path).tells(*words, "ebbtide:workloads.hub.serviceAccount:")


def test_an_account_that_is_made_for_one_pod_is_of_no_other(tmp_path: Path) -> None:
    more = f"""
        ebbtide:workloads:
          api: {{ category: flexible, {POD}, aws: {{ buckets: {{ acme-data: read }} }} }}
          web: {{ category: flexible, {POD}, serviceAccount: api }}
    """

    assert fault_in(shortest(more=more), tmp_path).tells("service-account.of-another", "workloads.web.serviceAccount:")


def test_an_account_of_that_name_in_the_other_namespace_is_another_one(tmp_path: Path) -> None:
    more = f"ebbtide:workloads: {{ web: {{ category: flexible, {POD}, serviceAccount: train }} }}"
    text = shortest(train="aws: { buckets: { acme-data: read } }", more=more)

    assert loaded(text, tmp_path).workloads["web"].service_account == "train"


def test_no_rights_hang_on_the_account_of_all_pods(tmp_path: Path) -> None:
    problem = fault_in(workload("aws: { buckets: { acme-data: read } }", name="default"), tmp_path)

    assert problem.tells("account.default", "ebbtide:workloads.default:")


# --- at the API server ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule",
    [
        MANAGE_PODS,
        'groups: [""], resources: [pods/log, events, services, persistentvolumeclaims], verbs: [get, create]',
        'groups: [""], resources: [secrets], verbs: [get, update], names: [hub-state]',
        "groups: [batch], resources: [jobs], verbs: [create, delete, deletecollection]",
        "groups: [apps], resources: [deployments], verbs: [get, list, watch]",
        "groups: [ray.io], resources: [rayclusters], verbs: [get, list, watch]",
        'groups: ["", batch], resources: [pods, pods/exec, jobs, services, configmaps], verbs: [create, patch, delete]',
        "groups: [sparkoperator.k8s.io], resources: [sparkapplications, sparkapplications/status], verbs: [create]",
        "groups: [argoproj.io], resources: [workflows], verbs: [create, patch, delete]",
        "groups: [coordination.k8s.io], resources: [leases], verbs: [create, update]",
        "groups: [networking.k8s.io], resources: [ingresses], verbs: [create, delete]",
    ],
)
def test_what_a_program_needs_to_start_pods_is_taken(rule: str, tmp_path: Path) -> None:
    assert loaded(with_rule(rule), tmp_path).workloads["hub"].starts_pods


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        *(
            (f'groups: [""], resources: [pods], verbs: ["{verb}"]', ("verb.refused", "verbs[0]:"))
            for verb in ("*", "escalate", "bind", "impersonate")
        ),
        ('groups: [""], resources: [pods], verbs: [read]', ("verb.unknown", "verbs[0]:")),
        ('groups: ["*"], resources: [pods], verbs: [get]', ("api-group.refused", "groups[0]:")),
        ("groups: [policy], resources: [pods], verbs: [get]", ("api-group.refused", "budgets")),
        ("groups: [rbac.authorization.k8s.io], resources: [pods], verbs: [get]", ("api-group.refused",)),
        ("groups: [autoscaling], resources: [pods], verbs: [get]", ("api-group.refused",)),
        ("groups: [batch/v1], resources: [jobs], verbs: [get]", ("api-group.form",)),
        *(
            (f'groups: [""], resources: ["{resource}"], verbs: [get]', ("api-resource.refused", "resources[0]:"))
            for resource in (
                *("*", "pods/*", "pods/eviction", "deployments/scale", "serviceaccounts", "serviceaccounts/token"),
                *("poddisruptionbudgets", "roles", "rolebindings", "networkpolicies", "bindings", "pods/binding"),
            )
        ),
        ('groups: [""], resources: [Pods], verbs: [get]', ("api-resource.form",)),
        ('groups: [""], resources: [pods, secrets], verbs: [get]', ("secrets.without-names", "names:")),
        ('groups: [""], resources: [secrets], verbs: [create], names: [a]', ("verb.without-name", "found create")),
        ("groups: [apps], resources: [deployments], verbs: [get, create]", ("verb.on-lasting", "found create")),
        ("groups: [apps], resources: [statefulsets/status], verbs: [patch]", ("verb.on-lasting",)),
        *(
            (
                f'groups: ["{group}"], resources: [{kind}], verbs: [get, {verb}]',
                ("verb.on-lasting", f"found {verb}", kind),
            )
            for group, kind, verb in (
                ("", "replicationcontrollers", "create"),
                ("apps", "replicasets", "patch"),
                ("batch", "cronjobs", "create"),
                ("argoproj.io", "rollouts", "create"),
                ("argoproj.io", "cronworkflows", "update"),
                ("ray.io", "rayclusters", "create"),
                ("ray.io", "rayjobs", "create"),
                ("ray.io", "rayservices", "patch"),
                ("keda.sh", "scaledobjects", "create"),
                ("keda.sh", "scaledjobs", "create"),
                ("serving.knative.dev", "services", "create"),
                ("kubeflow.org", "notebooks", "delete"),
                ("apps.openshift.io", "deploymentconfigs", "create"),
                ("ray.io", "rayclusters/status", "update"),
            )
        ),
        (
            'groups: ["", apps], resources: [pods, daemonsets], verbs: [create]',
            ("verb.on-lasting", "daemonsets of apps", "ebbtide:workloads"),
        ),
        (
            "groups: [argoproj.io], resources: [rollouts], verbs: [create]",
            ("verb.on-lasting", "known to end: workflows", "Role"),
        ),
        ('groups: [""], resources: [], verbs: [get]', ("list.empty",)),
        ('groups: [""], resources: [pods], verbs: [get], names: []', ("list.empty", "names:")),
    ],
)
def test_a_right_that_would_undo_a_promise_is_refused_at_its_key(
    rule: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    assert fault_in(with_rule(rule), tmp_path).tells(*words, "ebbtide:workloads.hub.kubernetes.rules[0].")


def test_every_fault_of_a_rule_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    problems = problems_of(
        with_rule('groups: ["*"], resources: [secrets, pods/eviction], verbs: [get, bind]'), tmp_path
    )

    assert {problem.code for problem in problems} == {
        "api-group.refused",
        "api-resource.refused",
        "verb.refused",
        "secrets.without-names",
    }
    assert {problem.line for problem in problems} == {6}


def test_a_workload_that_starts_pods_is_fixed(tmp_path: Path) -> None:
    text = workload(f"kubernetes: {{ rules: [ {{ {MANAGE_PODS} }} ] }}", category="flexible")

    assert fault_in(text, tmp_path).tells(
        "kubernetes.not-fixed", "ebbtide:workloads.hub.category:", "holds their state"
    )


def test_its_namespace_is_not_the_one_of_the_workers(tmp_path: Path) -> None:
    text = workload(f"kubernetes: {{ rules: [ {{ {MANAGE_PODS} }} ] }}", name="workers")

    assert fault_in(text, tmp_path).tells("namespace.taken", "ebbtide:workloads.workers:")


def test_a_worker_pool_starts_no_pods(tmp_path: Path) -> None:
    text = shortest(train=f"kubernetes: {{ rules: [ {{ {MANAGE_PODS} }} ] }}")

    assert fault_in(text, tmp_path).tells("key.elsewhere", "ebbtide:workloads")


def test_the_closer_knows_the_budget_of_such_a_workload_where_it_is(tmp_path: Path) -> None:
    config = controller_config(loaded(with_rule(MANAGE_PODS), tmp_path), REDIS)

    assert ("hub", "ebbtide-hub") in {(budget.name, budget.namespace) for budget in config.never_opened}
    assert config.budgets == ()
