"""Facts about the rules for adopted pods: pods, owners, budgets, and how the admission policy treats a new pod.

The new pod is created as a dry run, which passes admission and is never stored.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from controllers.adapters.kube_api import ApiError, Json
from ebbtide.operate.objects import at, rows_at
from ebbtide.operate.owners import Owner, Owners
from ebbtide.operate.probe.facts import Answer, Denied, NodeLabels, ReadApi, names_in, read
from ebbtide.settings.sections.adopted import AdoptedSettings, SleepingObject, deployment_of, label_selector
from ebbtide.text.one_line import collapsed
from ebbtide.text.quantities import cpu_quantity

_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_BUDGETS = "/apis/policy/v1/namespaces"
_POLICY = "ebbtide-adopt"
_PARALLEL = 8


class AdoptedWant(NamedTuple):
    """A rule of the stack."""

    name: str
    rule: AdoptedSettings
    nodes: NodeLabels  # labels of the nodes that its pods select


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFacts:
    """The pods that a rule selects."""

    pods: Answer = None  # a list
    owners: Mapping[str, Owner] = field(default_factory=dict[str, Owner])  # by pod
    scales: Mapping[Owner, bool | None] = field(default_factory=dict[Owner, bool | None])
    dry_run: Json | str | None = None  # the pod as it would be stored, or why it would not be; None: not tried
    deployment: Answer = None  # of its pool
    scaled: Answer = None  # the object whose replicas sleep writes
    autoscalers: Answer = None  # of its namespace: a list


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedFacts:
    has_policies: bool  # MutatingAdmissionPolicy of v1
    policy: Answer
    namespaces: Mapping[str, Answer]
    budgets: Mapping[str, Answer]  # by namespace: a list
    rules: Mapping[str, RuleFacts]


def adopted_facts(api: ReadApi, wants: Sequence[AdoptedWant]) -> AdoptedFacts | None:
    """Send all requests; None without rules. Raises `ApiError` if the server is unreachable."""
    if not wants:
        return None
    spaces = sorted({want.rule.namespace for want in wants})
    has_policies = "mutatingadmissionpolicies" in names_in(read(api, _ADMISSION), "resources")
    policy = read(api, f"{_ADMISSION}/mutatingadmissionpolicies/{_POLICY}") if has_policies else None
    with ThreadPoolExecutor(_PARALLEL) as pool:
        namespaces = pool.map(partial(read, api), [f"/api/v1/namespaces/{space}" for space in spaces])
        budgets = pool.map(partial(read, api), [f"{_BUDGETS}/{space}/poddisruptionbudgets" for space in spaces])
        rules = pool.map(partial(_rule, api, policy), wants)
        return AdoptedFacts(
            has_policies=has_policies,
            policy=policy,
            namespaces=dict(zip(spaces, namespaces, strict=True)),
            budgets=dict(zip(spaces, budgets, strict=True)),
            rules={want.name: facts for want, facts in zip(wants, rules, strict=True)},
        )


def knows(policy: Answer, rule: str) -> bool:
    """True if the policy in the cluster has a rule of this name: the stack file may have changed since the update."""
    variables = [] if isinstance(policy, Denied) else rows_at(policy, "spec", "variables")
    return any(each.get("name") == "rule" and f'? "{rule}"' in str(each.get("expression")) for each in variables)


def _rule(api: ReadApi, policy: Answer, want: AdoptedWant) -> RuleFacts:
    rule, owners = want.rule, Owners(api)
    selector = label_selector(rule.selector)
    path = f"/api/v1/namespaces/{rule.namespace}/pods"
    pods = read(api, path, labelSelector=selector)
    deployment = f"/apis/apps/v1/namespaces/{rule.namespace}/deployments/{deployment_of(want.name, rule)}"
    rows = [] if isinstance(pods, Denied) else rows_at(pods, "items")
    by_pod = {str(at(pod, "metadata", "name")): owners.of(pod) for pod in rows}
    return RuleFacts(
        pods=pods,
        owners=by_pod,
        scales={owner: owners.has_scale(owner) for owner in set(by_pod.values())},
        dry_run=_dry_run(api, path, rule) if knows(policy, want.name) else None,
        deployment=None if rule.pool is None else read(api, deployment),
        **({} if rule.sleep is None else _sleep_facts(api, rule.namespace, rule.sleep.scale)),
    )


def _sleep_facts(api: ReadApi, namespace: str, scale: SleepingObject) -> dict[str, Answer]:
    path = f"/apis/apps/v1/namespaces/{namespace}/{scale.kind.lower()}s/{scale.name}"
    hpas = f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers"
    return {"scaled": read(api, path), "autoscalers": read(api, hpas)}


def _dry_run(api: ReadApi, path: str, rule: AdoptedSettings) -> Json | str:
    try:
        return api.create(path, _pod(rule), dryRun="All")
    except ApiError as error:
        if error.status == 0:
            raise
        return collapsed(error)


def _pod(rule: AdoptedSettings) -> dict[str, Any]:
    """Return a pod that quotas and the strictest pod security standard accept."""
    amounts = {"cpu": cpu_quantity(rule.cpu), "memory": f"{rule.memory}Mi"}
    container = {
        "name": "probe",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": amounts, "limits": amounts},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    labels = {key: values[0] for key, values in rule.selector.items()}
    security = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "ebbtide-probe-", "labels": labels},
        "spec": {"containers": [container], "securityContext": security},
    }
