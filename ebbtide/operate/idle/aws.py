"""Unused volumes and load balancers that AWS bills and that have the stack's tag, read once with the caller's login.

A detached volume is no finding if the stack file or an object of the cluster names its claim: its pod may sleep, move
or wait for a job. The same holds for the load balancer of a workload that sleeps. Stacks create no classic load
balancers, so none are read. AWS does not record the last use, so `since` is the time of creation. ARNs and ids stay in
this module.
"""

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any

from ebbtide.operate.idle.claims import Claims, ClaimState, Undecided, Unused
from ebbtide.operate.idle.finding import IdleFinding
from ebbtide.operate.idle.owners import owners
from ebbtide.prices import NoPrice, service_price
from ebbtide.prices.aws_questions import Aws, AwsCall, AwsRefused, NoAws
from ebbtide.provisioning_labels import CUSTOMER, ReplicasOwner
from ebbtide.settings.capacity.pods import CLAIM, referenced_objects
from ebbtide.settings.capacity.process_documents import sleepers_of
from ebbtide.settings.declared import declared_pods
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.owned import Owned
from ebbtide.text.durations import ONE_DAY
from ebbtide.vocabulary.labels import NAMESPACE

_CLAIM, _NAMESPACE = (f"kubernetes.io/created-for/pvc/{field}" for field in ("name", "namespace"))
_SERVICE = ("kubernetes.io/service-name", "service.k8s.aws/stack", "ingress.k8s.aws/stack")
"""Tags with namespace and name, set by cloud-provider-aws and the AWS Load Balancer Controller."""
_OWN_CLAIMS = "data-ebbtide-"  # of Redis, Prometheus and Alertmanager


def read_aws(aws: Aws, settings: StackSettings, claims: Claims, now: datetime) -> tuple[list[IdleFinding], list[str]]:
    """Return the findings, and a line for each kind of resource that could not be read."""
    if settings.cluster.context is not None:
        return [], ["volumes, load balancers: on an existing cluster they do not have the stack's tag"]
    findings: list[IdleFinding] = []
    unread: list[str] = []
    for kind, read in (
        ("volumes", lambda: _volumes(aws, settings, claims, now, unread)),
        ("load balancers", lambda: _balancers(aws, settings, now)),
    ):
        try:
            findings += read()
        except (NoAws, AwsRefused) as error:
            unread.append(f"{kind}: {error}")
    return findings, unread


def _volumes(
    aws: Aws, settings: StackSettings, claims: Claims, now: datetime, unread: list[str]
) -> Iterator[IdleFinding]:
    """Yield findings; volumes whose claim may be in use are lines of `unread`, one for each reason."""
    ours = {"Name": f"tag:{CUSTOMER}", "Values": [settings.customer]}
    question = AwsCall(
        action="ec2:DescribeVolumes",
        parameters={"Filters": [{"Name": "status", "Values": ["available"]}, ours]},
        region=settings.stated_region,
        answers="Volumes",
        token="NextToken",
    )
    named, own_sets, undecided = _named_claims(settings), {*_sets(settings)}, dict[str, list[str]]()
    volumes: list[Any] = aws.ask(question)
    for volume in volumes:
        tags = {tag["Key"]: tag["Value"] for tag in volume["Tags"]}
        claim, created, size = tags.get(_CLAIM, ""), volume["CreateTime"], f"{volume['Size']} GiB"
        may_return = claim.startswith(_OWN_CLAIMS) or {claim, claim.rpartition("-")[0]} & named
        if may_return or now - created < ONE_DAY:
            continue
        state = _state(claim, tags.get(_NAMESPACE, ""), own_sets, claims)
        if isinstance(state, Undecided):
            undecided.setdefault(state.why, []).append(claim)
        if not isinstance(state, Unused):
            continue
        evidence = f"{size} {volume['VolumeType']}, attached to no node; created {created:%Y-%m-%d}"
        yield IdleFinding(
            kind="volume",
            name=claim or tags.get("Name", f"{size} of {created:%Y-%m-%d}"),
            evidence="; ".join(filter(None, (evidence, state.evidence))),
            usd=_volume_usd(settings.stated_region, volume),
            since=created,
        )
    unread += (f"volumes: the use of claim {', '.join(sorted(names))}: {why}" for why, names in undecided.items())


def _state(claim: str, namespace: str, own_sets: Collection[str], claims: Claims) -> ClaimState:
    if not claim:
        return Unused("")
    if not namespace:
        return Undecided("no tag of the volume names its namespace")
    if namespace == NAMESPACE and claim.rpartition("-")[0] in own_sets:
        return Unused("its set has fewer pods in the stack file")
    return claims.state(namespace, claim)


def _volume_usd(region: str, volume: Any) -> float | None:
    """Return US dollars a month by size; None for types other than gp3, which have no price in the tables."""
    try:
        return volume["Size"] * service_price(region, "ebs", f"{volume['VolumeType']}_storage")
    except NoPrice:
        return None


def _named_claims(settings: StackSettings) -> set[str | None]:
    """Return the claims that the stack file names, and the claims of its stateful sets."""
    named = {entry for declared in declared_pods(settings) for entry in referenced_objects(declared.pod)}
    saved = {pool.checkpoints.claim for pool in settings.workers.values() if pool.checkpoints is not None}
    return saved | {*_claims_of_sets(settings)} | {entry.name for entry in named if entry.kind == CLAIM}


def _claims_of_sets(settings: StackSettings) -> Iterator[str]:
    """Yield the claims of StatefulSets, without the pod's ordinal if an autoscaler sets the replicas."""
    for name, workload in settings.all_workloads.items():
        pods = [""] if workload.replicas_owner is ReplicasOwner.HPA else [f"-{n}" for n in range(workload.replicas)]
        yield from (f"{volume}-{name}{pod}" for volume in workload.volumes for pod in pods)


def _sets(settings: StackSettings) -> Iterator[str]:
    """Yield the claims of the StatefulSets in the stack file without ordinals."""
    for name, workload in settings.all_workloads.items():
        yield from (f"{volume}-{name}" for volume in workload.volumes)


def _balancers(aws: Aws, settings: StackSettings, now: datetime) -> Iterator[IdleFinding]:
    def ask(operation: str, answers: str, **parameters: object) -> list[Any]:
        action, paging = f"elasticloadbalancing:{operation}", {"token": "NextMarker", "token_parameter": "Marker"}
        return aws.ask(
            AwsCall(action=action, parameters=parameters, region=settings.stated_region, answers=answers, **paging)
        )

    asleep = {f"{policy.namespace}/{policy.name}" for policy in sleepers_of(settings)}
    for balancer in ask("DescribeLoadBalancers", "LoadBalancers"):
        arn, created = balancer["LoadBalancerArn"], balancer["CreatedTime"]
        tagged = ask("DescribeTags", "TagDescriptions", ResourceArns=[arn])
        tags = {tag["Key"]: tag["Value"] for entry in tagged for tag in entry["Tags"]}
        service = next((tags[key] for key in _SERVICE if key in tags), "")
        if tags.get(CUSTOMER) != settings.customer or service in asleep or now - created < ONE_DAY:
            continue
        groups = ask("DescribeTargetGroups", "TargetGroups", LoadBalancerArn=arn)
        may_redirect = not groups and balancer["Type"] == "application"
        if may_redirect or any(
            ask("DescribeTargetHealth", "TargetHealthDescriptions", TargetGroupArn=group["TargetGroupArn"])
            for group in groups
        ):
            continue
        keys = owners(settings).get(service.rpartition("/")[2], Owned())
        yield IdleFinding(
            kind="load balancer",
            name=service or balancer["LoadBalancerName"],
            evidence=f"no target; created {created:%Y-%m-%d}",
            usd=None,  # the tables have no price
            since=created,
            owner=keys.owner,
            expires=keys.expires,
        )
