"""Service accounts of the pods: which pods get one, its name and its namespace.

An account is named after its pod, so `default` is not available: the API server creates that account in every
namespace, and pods without another account share it.
"""

from collections.abc import Iterator

from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings.capacity.placed import PlacedPod
from ebbtide.settings.checks.parsed import CheckRule, ParsedSections
from ebbtide.settings.file.keys import BROKERS, CLUSTER
from ebbtide.settings.file.problems import Finding
from ebbtide.settings.sections.cluster import ClusterKind
from ebbtide.settings.sections.workers import WorkerSettings
from ebbtide.settings.sections.workloads import WorkloadSettings

_DEFAULT = "default"


def _starts_pods(placed: PlacedPod) -> bool:
    return isinstance(placed.pod, WorkloadSettings) and placed.pod.starts_pods


def _receives_from_sqs(placed: PlacedPod, parsed: ParsedSections) -> bool:
    """True if the pod gets a role for its queues in SQS."""
    pool = placed.pod
    if not isinstance(pool, WorkerSettings) or parsed.existing or BROKERS not in parsed.valid:
        return False
    broker = parsed.stack.brokers.get(pool.source.broker or "")
    return broker is not None and broker.on_sqs and pool.service_account is None


def _has_account(placed: PlacedPod, parsed: ParsedSections) -> bool:
    """True if Ebbtide creates an account for the pod."""
    return placed.pod.aws is not None or _starts_pods(placed) or _receives_from_sqs(placed, parsed)


def _names_are_free(parsed: ParsedSections) -> Iterator[Finding]:
    for placed in parsed.pods:
        if _has_account(placed, parsed) and placed.name == _DEFAULT:
            expected = "another name, since this pod's account has the same name"
            hint = "all pods of a namespace without another account share 'default'"
            yield Finding(code="account.default", at=placed.at, wanted=expected, found=repr(placed.name), hint=hint)
        if _starts_pods(placed) and placed.namespace == WORKER_NAMESPACE:
            expected = "another name, since the namespace of this workload is named after it"
            hint = f"{WORKER_NAMESPACE} is the namespace of the queue workers"
            yield Finding(code="namespace.taken", at=placed.at, wanted=expected, found=repr(placed.name), hint=hint)


def _named_accounts_exist(parsed: ParsedSections) -> Iterator[Finding]:
    owners = {(placed.namespace, placed.name): placed.at for placed in parsed.pods if _has_account(placed, parsed)}
    for placed in parsed.pods:
        owner = owners.get((placed.namespace, placed.pod.service_account or ""))
        if owner is not None and owner != placed.at:
            yield Finding(
                code="service-account.of-another",
                at=(*placed.at, "serviceAccount"),
                wanted="an existing account",
                found=f"{placed.pod.service_account!r}, which Ebbtide creates only for {placed.pod.service_account}",
                hint="give this pod its own permissions",
            )


def _rights_on_aws_need_eks(parsed: ParsedSections) -> Iterator[Finding]:
    """Pod Identity needs EKS; a stack on an existing cluster has no AWS account."""
    for placed in parsed.pods:
        if placed.pod.aws is not None:
            yield Finding(
                code="aws.existing-cluster",
                at=(*placed.at, "aws"),
                wanted="serviceAccount instead, on an existing cluster",
                found="the key",
                example=f"serviceAccount: {placed.name}",
                hint="the cluster's administrator creates that account and grants its AWS permissions",
            )


RULES = (
    CheckRule((), _names_are_free),
    CheckRule((), _named_accounts_exist),
    CheckRule((CLUSTER,), _rights_on_aws_need_eks, on=ClusterKind.EXISTING),
)
