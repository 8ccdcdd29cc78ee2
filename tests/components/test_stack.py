"""The entire stack: a customer's resources, the order of creation and deletion, and the program that builds it."""

import inspect
import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pulumi
import pytest

import infra
from ebbtide.provisioning_labels import NodeKind
from ebbtide.recording.record import SECRET, Recording, record_directory
from ebbtide.settings.load import stack_of_text
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.documents import load
from tests.builders.components import pod_of
from tests.builders.recorded import record
from tests.builders.stack import COST_TAGS, Recorded, group_settings, stack_settings
from tests.builders.stack_files.listed import shapes

pytestmark = pytest.mark.whole

PROGRAM = Path(infra.__file__).parent

CONFIG = {
    "aws:region": "us-east-1",
    "ebbtide:customer": "acme",
    "ebbtide:businessHours": json.dumps({"timezone": "America/New_York", "week": {"mon-fri": "08:00-19:00"}}),
    "ebbtide:workers": json.dumps(
        {
            "train": {
                "source": {"kind": "rq", "queues": ["train"]},
                "image": "train:1",
                "max": 8,
                "cpu": 4,
                "memory": "16Gi",
                "longestJob": "12h",
            }
        }
    ),
}


def run_program(changes: Mapping[str, str] | None = None, **options: Any) -> Recording:
    return record_directory(PROGRAM, {**CONFIG, **(changes or {})}, **options)


def takes_tags(resource_type: str) -> bool:
    """True if the provider's class of a type, such as aws:ec2/vpc:Vpc, has an argument for tags."""
    _, module, name = resource_type.split(":")
    resource = getattr(import_module(f"pulumi_aws.{module.split('/')[0]}"), name)
    return "tags" in inspect.signature(resource._internal_init).parameters


# --- what every resource has ------------------------------------------------------------------------------------------


def test_every_aws_resource_that_takes_tags_says_who_pays(stack: Recorded) -> None:
    ours = [r for r in stack.all if r.type.startswith("aws:")]
    taggable = [r for r in ours if takes_tags(r.type)]

    assert len(taggable) > 30
    assert [r.name for r in taggable if not COST_TAGS.items() <= r.inputs.get("tags", {}).items()] == []


def test_nothing_falls_back_to_a_default_provider(stack: Recorded) -> None:
    providers = {"aws": stack.named("aws").urn, "kubernetes": stack.named("cluster-kubernetes").urn}
    custom = [r for r in stack.all if r.custom and not r.type.startswith("pulumi:providers:")]

    assert [r.name for r in custom if r.provider != providers[r.type.split(":")[0]]] == []


def test_ignored_fields_are_spelt_as_the_provider_spells_them(stack: Recorded) -> None:
    ignored = {path for resource in stack.all for path in resource.ignore_changes}

    assert ignored == {
        "scalingConfig.desiredSize",
        "spec.replicas",
        "spec.maxUnavailable",
        "spec.volumeClaimTemplates",
        "principalArn",
        "bootstrapSelfManagedAddons",
        "encryptionConfig",
    }


def test_component_types_are_ours(stack: Recorded) -> None:
    components = {resource.type for resource in stack.all if not resource.custom}

    assert all(type_.startswith("ebbtide:components:") for type_ in components)


def test_no_pod_on_a_fixed_node_can_be_pushed_out_by_another_there(stack: Recorded) -> None:
    jobs = [job.inputs["spec"]["jobTemplate"]["spec"]["template"]["spec"] for job in stack.of("CronJob")]
    owned = [pod_of(resource) for kind in ("Deployment", "StatefulSet", "DaemonSet") for resource in stack.of(kind)]
    on_fixed = [pod for pod in [*jobs, *owned] if pod.get("nodeSelector") == {"ebbtide.dev/node-kind": "fixed"}]

    assert len(on_fixed) > len(jobs) > 0
    assert {pod.get("priorityClassName") for pod in on_fixed} == {"system-cluster-critical"}


# --- order ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind", "outlived_by"),
    [
        ("train-deployment", "", ["redis-server", "namespaces-workers", "autoscaler-deployment"]),
        ("redis-server", "", ["add-ons-aws-ebs-csi-driver", "add-ons-gp3", "flexible-b-nodes"]),
        ("controller-deployment", "", ["api-budget", "train-deployment", "redis-server"]),
        ("autoscaler-deployment", "", ["fixed-a-nodes", "add-ons-coredns"]),
        ("namespaces-workers", "", ["gpu-b-nodes", "cluster-vpc-cni"]),
        ("gpu-a-nodes", "", ["cluster-deployer", "cluster-node-AmazonEKSWorkerNodePolicy", "network-out-b"]),
        ("cluster-control-plane", "Cluster", ["network-nat", "network-s3", "cluster-logs"]),
    ],
)
def test_a_destroy_takes_things_down_from_the_inside(
    stack: Recorded, name: str, kind: str, outlived_by: list[str]
) -> None:
    assert set(outlived_by) <= stack.before(stack.named(name, kind))


# --- settings ---------------------------------------------------------------------------------------------------------


def test_raising_the_fixed_minimum_changes_that_group_and_nothing_else(stack: Recorded) -> None:
    groups = {**stack_settings().node_groups, "fixed": group_settings(NodeKind.FIXED, min=4)}
    before = {r.urn: r for r in stack.all}
    after = {r.urn: r for r in record(stack_settings(node_groups=groups))}

    assert before.keys() == after.keys()
    assert {r.name for urn, r in after.items() if r != before[urn]} == {"fixed-a-nodes", "fixed-b-nodes"}


# --- the program ------------------------------------------------------------------------------------------------------


def test_the_program_runs_as_pulumi_runs_it_and_exports() -> None:
    recording = run_program(stack="acme")

    assert recording.outputs["clusterName"] == "acme"
    assert load(ControllerConfig, recording.outputs["controllerConfig"]).customer == "acme"
    owned = {(row["kind"], row["name"]): row["owner"] for row in recording.outputs["ownership"]}
    assert owned["Deployment", "train"] == "controller"
    assert owned["NodeGroup", "flexible-a-nodes"] == "cluster-autoscaler"


def test_all_faults_of_the_config_come_as_one_error_without_a_traceback() -> None:
    with pytest.raises(pulumi.RunError) as refused:
        run_program({"ebbtide:customr": "acme", "ebbtide:cluster": '{"zones": ["a"]}'}, stack="acme")

    assert "ebbtide:customr" in str(refused.value)
    assert "ebbtide:cluster.zones" in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


def test_the_redis_password_goes_into_secrets_and_nowhere_else() -> None:
    recording = run_program({"ebbtide:redisPassword": "hunter2"}, secret_keys=["ebbtide:redisPassword"])
    secrets = [r for r in recording.resources if r.type == "kubernetes:core/v1:Secret"]

    assert "hunter2" not in repr(recording)
    assert secrets
    assert all(secret.inputs["stringData"] == SECRET for secret in secrets)


CACHE = {"ebbtide:redis": '{"kind": "elasticache"}'}


@pytest.mark.parametrize(
    ("token", "fault"),
    [
        ("hunter2", "is too short"),
        ("a" * 15, "is too short"),
        ("a" * 129, "is too long"),
        ("hunter2 hunter2 hunter2", "has other characters"),
        ("hunter2@hunter2@hunter2", "has other characters"),
        ("hunter2-hunter2-hunter2\n", "has other characters"),
        ("hünter2", "is too short and has other characters"),
        ("", "is too short"),
    ],
)
def test_a_token_that_a_cache_would_refuse_stops_the_program_before_its_first_resource(
    token: str, fault: str, registered: list[str]
) -> None:
    config = {**CACHE, "ebbtide:customr": "acme", "ebbtide:redisPassword": token}
    with pytest.raises(pulumi.RunError) as refused:
        run_program(config, secret_keys=["ebbtide:redisPassword"], stack="acme")

    first, second = str(refused.value).splitlines()
    assert "ebbtide:customr" in first
    assert second == (
        "stacks/Pulumi.acme.yaml: ebbtide:redisPassword: wanted the token of the cache: 16 to 128 letters, digits "
        f"or ! & # $ ^ < > -, found a secret that {fault}; pulumi config set --secret ebbtide:redisPassword"
    )
    assert registered == []


@pytest.mark.parametrize("token", ["a" * 16, "Z9!&#$^<>-" * 12 + "12345678"])
def test_a_token_that_a_cache_takes_gets_there_unseen(token: str) -> None:
    recording = run_program({**CACHE, "ebbtide:redisPassword": token}, secret_keys=["ebbtide:redisPassword"])

    (cache,) = [r for r in recording.resources if r.type.endswith(":ReplicationGroup")]
    assert cache.inputs["authToken"] == SECRET
    assert token not in repr(recording)


@pytest.mark.parametrize(
    ("changes", "secret"),
    [
        ({"ebbtide:customer": "Hunter2? hunter2!"}, "ebbtide:customer"),
        ({"ebbtide:redis": '{"kind": "url", "url": "redis://:hunter2@example.com"}'}, "ebbtide:redis"),
    ],
)
def test_a_secret_in_the_wrong_place_is_refused_without_being_shown(changes: dict[str, str], secret: str) -> None:
    with pytest.raises(pulumi.RunError) as refused:
        run_program(changes, secret_keys=[secret])

    assert secret in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_settings_of_other_providers_are_passed_by() -> None:
    assert run_program({"aws:profile": "prod", "pulumi:tags": "{}"}).resources == run_program().resources


def test_no_rollout_waits_for_room_on_fixed_nodes() -> None:
    """They are few and full. `25%`, the default of Deployments, requests one more pod."""
    stack = Recorded(record(stack_of_text(shapes()["everything-on-eks"], stack="all", file="Pulumi.all.yaml")))
    strategies = {
        each.name: each.inputs["spec"].get("strategy", {})
        for each in stack.of("Deployment")
        if pod_of(each)["nodeSelector"] == {"ebbtide.dev/node-kind": "fixed"}
    }

    assert {"hub-deployment", "keda-operator-deployment", "autoscaler-deployment"} < strategies.keys()
    assert {name for name, it in strategies.items() if not never_brings_one_more(it)} == set()


def never_brings_one_more(strategy: Mapping[str, Any]) -> bool:
    return strategy.get("type") == "Recreate" or strategy.get("rollingUpdate", {}).get("maxSurge") == 0
