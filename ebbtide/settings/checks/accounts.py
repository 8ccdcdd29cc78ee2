"""The accounts of a stack file's pods: which are made for a pod, under which name, and where.

An account is named after its pod, so some names cannot be had: the API server makes an account `default` in every
namespace, and the pods of all others hang on it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ebbtide.labels import WORKER_NAMESPACE
from ebbtide.settings.file.pod_entries import RAY, raw_pods
from ebbtide.settings.file.problems import Finding, Location, value_at
from ebbtide.settings.file.service_entries import SERVICES
from ebbtide.settings.sections.pods.kubernetes import own_namespace
from ebbtide.settings.sections.ray import namespace_of_ray
from ebbtide.vocabulary.labels import NAMESPACE

_WORKLOADS = "ebbtide:workloads"
_OF_WORKERS = ("ebbtide:workers", "ebbtide:jobs", "ebbtide:cronJobs")
_DEFAULT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountDraft:
    """What an entry says of its account, readable or not."""

    at: Location
    name: str
    namespace: str
    aws: bool
    kubernetes: bool
    named: str | None  # the account of others

    @property
    def own(self) -> bool:
        return self.aws or self.kubernetes


def accounts_draft(config: Mapping[str, object]) -> tuple[AccountDraft, ...]:
    return tuple(_drafts(config))


def _drafts(config: Mapping[str, object]) -> Iterator[AccountDraft]:
    for pod in raw_pods(config, (_WORKLOADS, SERVICES, *_OF_WORKERS, RAY)):
        kubernetes = pod.at[0] == _WORKLOADS and value_at(pod.raw, ("kubernetes",)) is not None
        named = value_at(pod.raw, ("serviceAccount",))
        yield AccountDraft(
            at=pod.at,
            name=pod.name,
            namespace=own_namespace(pod.name) if kubernetes else _namespace(pod.at),
            aws=value_at(pod.raw, ("aws",)) is not None,
            kubernetes=kubernetes,
            named=named if isinstance(named, str) else None,
        )


def _namespace(at: Location) -> str:
    if at[0] == RAY:
        return namespace_of_ray(str(at[1]))
    return NAMESPACE if at[0] in (_WORKLOADS, SERVICES) else WORKER_NAMESPACE


def account_findings(drafts: tuple[AccountDraft, ...], *, existing: bool) -> Iterator[Finding]:
    made = {(draft.namespace, draft.name): draft for draft in drafts if draft.own}
    for draft in drafts:
        yield from _on_existing(draft) if existing else ()
        yield from _names_taken(draft)
        owner = made.get((draft.namespace, draft.named or ""))
        if owner is not None and owner is not draft:
            yield Finding(
                code="service-account.of-another",
                at=(*draft.at, "serviceAccount"),
                wanted="an account that others made",
                found=f"{draft.named!r}, which is made for {owner.name} alone",
                hint="give this pod rights of its own",
            )


def _on_existing(draft: AccountDraft) -> Iterator[Finding]:
    """Pod Identity is a part of EKS, and an account of AWS is none of such a stack's business."""
    if draft.aws:
        yield Finding(
            code="aws.existing-cluster",
            at=(*draft.at, "aws"),
            wanted="serviceAccount in its place, on a cluster that is there already",
            found="the key",
            example=f"serviceAccount: {draft.name}",
            hint="whoever runs the cluster makes that account and gives it its rights on AWS",
        )


def _names_taken(draft: AccountDraft) -> Iterator[Finding]:
    if draft.own and draft.name == _DEFAULT:
        what = "another name, since the account of this pod is named after it"
        hint = "the account 'default' of a namespace is the one of all pods that name none"
        yield Finding(code="account.default", at=draft.at, wanted=what, found=repr(draft.name), hint=hint)
    if draft.kubernetes and draft.namespace == WORKER_NAMESPACE:
        what = "another name, since the namespace of this workload is named after it"
        hint = f"{WORKER_NAMESPACE} is the namespace of the queue workers"
        yield Finding(code="namespace.taken", at=draft.at, wanted=what, found=repr(draft.name), hint=hint)
