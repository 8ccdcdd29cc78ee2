"""The accounts of a stack file's pods: which are made for a pod, under which name, and where.

An account is named after its pod, so some names cannot be had: the API server makes an account `default` in every
namespace, and the pods of all others hang on it.
"""

from collections.abc import Iterator

from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings.checks.read import Placed, Read, Rule
from ebbtide.settings.file.entries import RAY, SERVICES
from ebbtide.settings.file.keys import CLUSTER, WORKLOADS
from ebbtide.settings.file.problems import Finding
from ebbtide.settings.sections.cluster import ClusterKind
from ebbtide.settings.sections.pods.kubernetes import own_namespace
from ebbtide.settings.sections.ray import namespace_of_ray
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.vocabulary.labels import NAMESPACE

_DEFAULT = "default"


def _starts_pods(each: Placed) -> bool:
    return isinstance(each.pod, WorkloadSettings) and each.pod.starts_pods


def _is_own(each: Placed) -> bool:
    """Whether an account is made for it."""
    return each.pod.aws is not None or _starts_pods(each)


def _namespace(each: Placed) -> str:
    if each.at[0] == RAY:
        return namespace_of_ray(str(each.at[1]))
    if each.at[0] not in (WORKLOADS, SERVICES):
        return WORKER_NAMESPACE
    return own_namespace(each.name) if _starts_pods(each) else NAMESPACE


def _names_are_free(read: Read) -> Iterator[Finding]:
    for each in read.pods:
        if _is_own(each) and each.name == _DEFAULT:
            what = "another name, since this pod's account has the same name"
            hint = "all pods of a namespace without another account share 'default'"
            yield Finding(code="account.default", at=each.at, wanted=what, found=repr(each.name), hint=hint)
        if _starts_pods(each) and _namespace(each) == WORKER_NAMESPACE:
            what = "another name, since the namespace of this workload is named after it"
            hint = f"{WORKER_NAMESPACE} is the namespace of the queue workers"
            yield Finding(code="namespace.taken", at=each.at, wanted=what, found=repr(each.name), hint=hint)


def _named_ones_are_of_others(read: Read) -> Iterator[Finding]:
    made = {(_namespace(each), each.name): each.at for each in read.pods if _is_own(each)}
    for each in read.pods:
        owner = made.get((_namespace(each), each.pod.service_account or ""))
        if owner is not None and owner != each.at:
            yield Finding(
                code="service-account.of-another",
                at=(*each.at, "serviceAccount"),
                wanted="an existing account",
                found=f"{each.pod.service_account!r}, which is made for {each.pod.service_account} alone",
                hint="give this pod its own permissions",
            )


def _rights_on_aws_need_eks(read: Read) -> Iterator[Finding]:
    """Pod Identity is a part of EKS, and an account of AWS is none of such a stack's business."""
    for each in read.pods:
        if each.pod.aws is not None:
            yield Finding(
                code="aws.existing-cluster",
                at=(*each.at, "aws"),
                wanted="serviceAccount instead, on an existing cluster",
                found="the key",
                example=f"serviceAccount: {each.name}",
                hint="the cluster's administrator creates that account and grants its AWS permissions",
            )


RULES = (
    Rule((), _names_are_free),
    Rule((), _named_ones_are_of_others),
    Rule((CLUSTER,), _rights_on_aws_need_eks, on=ClusterKind.EXISTING),
)
