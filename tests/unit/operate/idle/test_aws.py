"""Volumes and load balancers that nothing uses. botocore's Stubber checks the questions and plays AWS's answers."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ebbtide.operate.idle.aws import read_aws
from ebbtide.operate.idle.claims import Claims
from ebbtide.operate.idle.finding import IdleFinding
from ebbtide.prices import service_price
from ebbtide.prices.aws_client import AwsClient
from ebbtide.settings import StackSettings
from tests.builders.claims import TEAM, claims_in, lists
from tests.builders.existing import stack_of
from tests.builders.settings import loaded, shortest
from tests.unit.prices.stubbed_aws import StubbedAws

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
OLD = datetime(2026, 8, 1, tzinfo=UTC)
REGION = "eu-west-1"
ARN = "arn:aws:elasticloadbalancing:eu-west-1:111122223333"
POD = 'image: "example.com/a:1", cpu: 1, memory: 1Gi'
WORKLOADS = f"""
aws:region: {REGION}
ebbtide:workloads:
  db: {{ category: fixed, kind: stateful-set, {POD}, volumes: {{ data: {{ perPod: 10Gi, at: /data }} }} }}
  cache: {{ category: flexible, kind: stateful-set, {POD}, replicas: 2, sleep: {{ when: outsideBusinessHours }},
    volumes: {{ data: {{ perPod: 10Gi, at: /data }} }} }}
  shards: {{ category: flexible, kind: stateful-set, {POD}, replicasOwner: hpa,
    volumes: {{ data: {{ perPod: 10Gi, at: /data }} }} }}
  hub: {{ category: fixed, {POD}, volumes: {{ state: {{ claim: hub-state, at: /state }} }} }}
  web: {{ category: flexible, {POD}, owner: team-web }}
  staging: {{ category: flexible, {POD}, sleep: {{ when: outsideBusinessHours }} }}
"""
SAVES = "checkpoints: { claim: saved, every: 5m, saveWithin: 90s }"
STACK_TAG = ("ebbtide.dev/customer", "acme")


@pytest.fixture
def settings(tmp_path: Path) -> StackSettings:
    return loaded(shortest(train=SAVES, more=WORKLOADS), tmp_path)


@pytest.fixture
def aws() -> StubbedAws:
    return StubbedAws()


def tags(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in (STACK_TAG, *pairs)]


def volume(*pairs: tuple[str, str], kind: str = "gp3", created: datetime = OLD) -> dict[str, Any]:
    volume_id = "vol-0123456789abcdef0"
    return {"VolumeId": volume_id, "Size": 100, "VolumeType": kind, "CreateTime": created, "Tags": tags(*pairs)}


def of_claim(name: str, namespace: str = "ebbtide") -> list[tuple[str, str]]:
    of = "kubernetes.io/created-for/pvc"
    return [(f"{of}/name", name), *([(f"{of}/namespace", namespace)] if namespace else [])]


def answer_volumes(aws: StubbedAws, *pages: Sequence[dict[str, Any]]) -> None:
    filters = [
        {"Name": "status", "Values": ["available"]},
        {"Name": "tag:ebbtide.dev/customer", "Values": ["acme"]},
    ]
    for number, volumes in enumerate(pages or [[]]):
        token = {"NextToken": str(number)} if number else {}
        following = {"NextToken": str(number + 1)} if number + 1 < len(pages) else {}
        aws.answers("ec2:describe_volumes", REGION, {"Volumes": volumes, **following}, {"Filters": filters, **token})


def answer_balancer(
    aws: StubbedAws,
    *pairs: tuple[str, str],
    targets: Sequence[str | None] = (None,),
    kind: str = "network",
    created: datetime = OLD,
    customer: str = "acme",
    judged: bool = True,
) -> None:
    """One load balancer with a target group for each of `targets`, which is the state of its only target."""
    arn = f"{ARN}:loadbalancer/net/a1b2/1"
    entry = {"LoadBalancerArn": arn, "LoadBalancerName": "a1b2", "Type": kind, "CreatedTime": created}
    aws.answers("elbv2:describe_load_balancers", REGION, {"LoadBalancers": [], "NextMarker": "2"}, {})
    aws.answers("elbv2:describe_load_balancers", REGION, {"LoadBalancers": [entry]}, {"Marker": "2"})
    tagged = {"ResourceArn": arn, "Tags": [{"Key": STACK_TAG[0], "Value": customer}, *tags(*pairs)[1:]]}
    aws.answers("elbv2:describe_tags", REGION, {"TagDescriptions": [tagged]}, {"ResourceArns": [arn]})
    if not judged:
        return
    groups = [f"{ARN}:targetgroup/g/{number}" for number, _ in enumerate(targets)]
    listed = {"TargetGroups": [{"TargetGroupArn": group} for group in groups]}
    aws.answers("elbv2:describe_target_groups", REGION, listed, {"LoadBalancerArn": arn})
    for group, state in zip(groups, targets, strict=True):
        health = [] if state is None else [{"Target": {"Id": "i-0123456789abcdef0"}, "TargetHealth": {"State": state}}]
        answer = {"TargetHealthDescriptions": health}
        aws.answers("elbv2:describe_target_health", REGION, answer, {"TargetGroupArn": group})


def no_balancers(aws: StubbedAws) -> None:
    aws.answers("elbv2:describe_load_balancers", REGION, {"LoadBalancers": []}, {})


def read(aws: StubbedAws, settings: StackSettings, cluster: Claims | None = None) -> list[IdleFinding]:
    findings, unread = read_aws(AwsClient(aws.client), settings, cluster or claims_in(lists()), NOW)
    aws.assert_all_answers_given()
    assert unread == []
    return findings


def test_a_detached_volume_is_found_with_its_price_on_every_page(aws: StubbedAws, settings: StackSettings) -> None:
    answer_volumes(aws, [volume(*of_claim("old-0"))], [volume(("Name", "scratch"), kind="io2")], [volume()])
    no_balancers(aws)

    first, second, third = read(aws, settings)

    price = 100 * service_price(REGION, "ebs", "gp3_storage")
    assert (first.name, first.usd, first.since) == ("old-0", pytest.approx(price), OLD)
    assert first.evidence == "100 GiB gp3, attached to no node; created 2026-08-01; its claim is gone"
    assert (second.name, second.usd) == ("scratch", None)
    assert third.name == "100 GiB of 2026-08-01"


@pytest.mark.parametrize(
    "claim", ["data-db-0", "data-cache-1", "data-shards-7", "hub-state", "saved", "data-ebbtide-redis-0"]
)
def test_the_volume_of_a_claim_in_the_stack_file_is_not_idle(
    claim: str, aws: StubbedAws, settings: StackSettings
) -> None:
    answer_volumes(aws, [volume(*of_claim(claim))])
    no_balancers(aws)

    assert read(aws, settings) == []


def test_the_volume_of_a_pod_that_its_stateful_set_no_longer_has_is_found(
    aws: StubbedAws, settings: StackSettings
) -> None:
    answer_volumes(aws, [volume(*of_claim("data-db-1")), volume(*of_claim("data-cache-2"))])
    no_balancers(aws)

    assert [finding.name for finding in read(aws, settings)] == ["data-db-1", "data-cache-2"]


def test_the_volume_of_a_claim_that_a_chart_keeps_is_not_idle_and_one_that_is_unknown_is_said(
    aws: StubbedAws, settings: StackSettings
) -> None:
    asleep = {"metadata": {"name": "pg"}, "spec": {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]}}
    owner = {"apiVersion": "example.com/v1", "kind": "Store", "name": "s"}
    owned = {"metadata": {"name": "owned-1", "ownerReferences": [owner]}}
    objects = {"statefulsets": [asleep], "persistentvolumeclaims": [{"metadata": {"name": "kept"}}, owned]}
    names = (("data-pg-0", TEAM), ("data-db-1", TEAM), ("owned-1", TEAM), ("kept", TEAM), ("old", ""))
    answer_volumes(aws, [volume(*of_claim(*name)) for name in names])
    no_balancers(aws)

    findings, unread = read_aws(AwsClient(aws.client), settings, claims_in(lists(objects)), NOW)

    assert [(finding.name, finding.evidence.rpartition("; ")[2]) for finding in findings] == [
        ("data-db-1", "its claim is gone"),  # the stack's set db is in another namespace
        ("kept", "custom resources were not read"),
    ]
    assert unread == [
        "volumes: the use of claim owned-1: belongs to Store s, a custom resource that was not read",
        "volumes: the use of claim old: no tag of the volume names its namespace",
    ]


def test_a_volume_and_a_load_balancer_of_today_are_not_judged(aws: StubbedAws, settings: StackSettings) -> None:
    today = NOW - timedelta(hours=23)
    answer_volumes(aws, [volume(created=today)])
    answer_balancer(aws, created=today, judged=False)

    assert read(aws, settings) == []


def test_a_load_balancer_without_targets_has_the_owner_of_its_service(aws: StubbedAws, settings: StackSettings) -> None:
    answer_volumes(aws)
    answer_balancer(aws, ("kubernetes.io/service-name", "ebbtide/web"), targets=(None, None))

    (finding,) = read(aws, settings)

    assert (finding.kind, finding.name, finding.owner, finding.usd) == (
        "load balancer",
        "ebbtide/web",
        "team-web",
        None,
    )
    assert "111122223333" not in repr(finding)


@pytest.mark.parametrize("state", ["healthy", "unhealthy", "draining", "initial"])
def test_one_target_in_any_state_is_use(state: str, aws: StubbedAws, settings: StackSettings) -> None:
    answer_volumes(aws)
    answer_balancer(aws, targets=(None, state))

    assert read(aws, settings) == []


@pytest.mark.parametrize(("kind", "names"), [("network", ["a1b2"]), ("application", [])])
def test_an_application_load_balancer_without_target_groups_may_redirect(
    kind: str, names: list[str], aws: StubbedAws, settings: StackSettings
) -> None:
    answer_volumes(aws)
    answer_balancer(aws, targets=(), kind=kind)

    assert [finding.name for finding in read(aws, settings)] == names


@pytest.mark.parametrize(
    ("customer", "service"), [("other", "ebbtide/web"), ("acme", "ebbtide/staging")], ids=["another stack", "asleep"]
)
def test_a_load_balancer_of_another_stack_or_of_a_sleeping_workload_is_left_out(
    customer: str, service: str, aws: StubbedAws, settings: StackSettings
) -> None:
    answer_volumes(aws)
    answer_balancer(aws, ("kubernetes.io/service-name", service), customer=customer, judged=False)

    assert read(aws, settings) == []


def test_a_missing_right_is_named_and_the_rest_is_read(aws: StubbedAws, settings: StackSettings) -> None:
    who = "User: arn:aws:sts::111122223333:assumed-role/reader/jane is not authorized"
    aws.refuses("ec2:describe_volumes", REGION, "UnauthorizedOperation", who)
    answer_balancer(aws)

    findings, (line,) = read_aws(AwsClient(aws.client), settings, claims_in(lists()), NOW)

    assert [finding.name for finding in findings] == ["a1b2"]
    assert line.startswith("volumes: ec2:DescribeVolumes in eu-west-1: refused; wanted the right ec2:DescribeVolumes")
    assert "111122223333" not in line
    assert "jane" not in line


def test_on_an_existing_cluster_aws_is_not_asked(aws: StubbedAws) -> None:
    findings, unread = read_aws(AwsClient(aws.client), stack_of(), claims_in(lists()), NOW)

    assert (findings, len(unread)) == ([], 1)
