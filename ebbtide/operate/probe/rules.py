"""Ebbtide's requirements for a cluster, one rule each: facts and a stack's wants in, one-line findings out. Pure.

`missing` names the remedy; `note` is something that a probe cannot find out, or a limitation that is not a fault.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TypeAlias

from controllers.adapters.kube_api import Json
from ebbtide.operate.probe.adopted import adopted_pods
from ebbtide.operate.probe.brokers import message_brokers
from ebbtide.operate.probe.facts import Answer, Denied
from ebbtide.operate.probe.findings import Probed, ProbeFinding, missing, note, ok
from ebbtide.operate.probe.node_pools import node_pools
from ebbtide.operate.probe.nodes import autoscaler_name, nodes_and_capacity
from ebbtide.operate.probe.objects import objects_of_others
from ebbtide.operate.probe.ray import ray_clusters
from ebbtide.operate.probe.serving import serving
from ebbtide.provisioning_labels import CUSTOMER
from ebbtide.settings.sections.eks_versions import KUBERNETES_VERSIONS
from ebbtide.settings.sections.redis import SET_TOKEN, TOKEN_WANTED
from ebbtide.vocabulary.clocks import MAX_CLOCK_SKEW
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.documents import UnreadableConfig, load
from ebbtide.vocabulary.labels import NAMESPACE

OLDEST = (1, 30)
"""First version with ValidatingAdmissionPolicy v1 (kubernetes.io, Validating Admission Policy, feature state)."""

_OPERATOR_API = "monitoring.coreos.com/v1"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def findings_of(probed: Probed) -> list[ProbeFinding]:
    return [finding for rule in RULES for finding in rule(probed)]


def _identity(probed: Probed) -> Iterator[ProbeFinding]:
    namespace, expected = probed.facts.identity, probed.wants.cluster_id
    if not isinstance(namespace, dict):
        yield note("cluster", "its id cannot be read: you need the right to get the namespace kube-system")
        return
    uid = str(namespace["metadata"]["uid"])
    if expected is None:
        yield ok("cluster", f'{uid}; to deploy to no other cluster, write clusterId: "{uid}" into ebbtide:cluster')
    elif expected == uid:
        yield ok("cluster", uid)
    else:
        yield missing("cluster", f"wanted {expected}, found {uid}: another cluster; use the right kubeconfig")


def _version(probed: Probed) -> Iterator[ProbeFinding]:
    version = probed.facts.version
    match = re.match(r"v?(\d+)\.(\d+)", version)
    newest = KUBERNETES_VERSIONS[-1]
    if match is None:
        yield note("version", f"the server's version cannot be read: {version!r}")
        return
    minor = int(match[1]), int(match[2])
    if minor < OLDEST:
        yield missing("version", f"{version}; upgrade to 1.{OLDEST[1]} or later, which has admission policies as v1")
    elif minor > tuple(int(part) for part in newest.split(".")):
        yield note("version", f"{version}; Ebbtide is tested up to {newest}")
    else:
        yield ok("version", version)


def _apis(probed: Probed) -> Iterator[ProbeFinding]:
    facts = probed.facts
    budgets = "policy/v1" in facts.apis
    yield ok("budgets", "policy/v1") if budgets else missing("budgets", "no policy/v1; upgrade the cluster")
    if facts.admission_policies:
        yield ok("admission", "ValidatingAdmissionPolicy v1")
    else:
        yield missing(
            "admission", "no ValidatingAdmissionPolicy v1, which limits what the controller may change; upgrade"
        )
    timed = "batch/v1" in facts.apis
    yield ok("cron", "batch/v1 with timeZone") if timed else missing("cron", "no batch/v1; upgrade the cluster")


def _storage(probed: Probed) -> Iterator[ProbeFinding]:
    listed = probed.facts.storage_classes
    if not probed.wants.volumes:
        yield ok("storage", "not needed: Redis runs outside the cluster")
        return
    if not isinstance(listed, dict):
        yield note("storage", "storage classes cannot be read; Redis needs a default one")
        return
    classes: Sequence[Json] = listed.get("items") or ()
    names = [str(item["metadata"]["name"]) for item in classes]
    if (name := probed.wants.storage_class) is not None:
        yield ok("storage", f"class {name}") if name in names else _no_class(f"no class {name}", names)
        return
    default = [item["metadata"]["name"] for item in classes if _annotations(item).get(_DEFAULT_CLASS) == "true"]
    if len(default) == 1:
        yield ok("storage", f"default class {default[0]}")
    elif default:
        yield note("storage", f"several default classes, of which the newest is used: {', '.join(default)}")
    else:
        yield _no_class("no default class", names)


def _token(probed: Probed) -> Iterator[ProbeFinding]:
    if not probed.wants.token:
        return
    if probed.token_fault is None:
        yield note("token", "pulumi config get cannot read it here; pulumi up checks it before it creates anything")
    elif probed.token_fault:
        yield missing("token", f"wanted {TOKEN_WANTED}, found {probed.token_fault}; {SET_TOKEN}")
    else:
        yield ok("token", "one that ElastiCache accepts")


def _no_class(lacking: str, names: Sequence[str]) -> ProbeFinding:
    classes = ", ".join(names) or "no class at all"
    command = f'kubectl annotate storageclass NAME {_DEFAULT_CLASS}="true"'
    return missing(
        "storage", f"{lacking} for the volume of Redis, found {classes}; {command}, or name one in redis.storageClass"
    )


def _metrics(probed: Probed) -> Iterator[ProbeFinding]:
    if "metrics.k8s.io/v1beta1" in probed.facts.apis:
        yield ok("metrics", "metrics.k8s.io")
    elif probed.wants.metrics:
        yield missing("metrics", "no metrics.k8s.io, which replicasOwner hpa needs; install the metrics server")
    else:
        yield note("metrics", "no metrics.k8s.io; Ebbtide does not need it, kubectl top does")


def _prometheus_operator(probed: Probed) -> Iterator[ProbeFinding]:
    if not probed.wants.prometheus_operator:
        return
    if _OPERATOR_API in probed.facts.apis:
        yield ok("monitoring", f"Prometheus' operator, {_OPERATOR_API}")
    else:
        lacking = f"no {_OPERATOR_API}, which monitoring.prometheus: existing needs"
        yield missing("monitoring", f"{lacking}; install Prometheus' operator, or write prometheus: bundled")


def _rights(probed: Probed) -> Iterator[ProbeFinding]:
    denied = sorted(probed.facts.denied)
    if not denied:
        yield ok("rights", "yours are enough for pulumi up and pulumi destroy")
        return
    shown = "; ".join(map(str, denied[:3])) + (f"; and {len(denied) - 3} more" if len(denied) > 3 else "")
    yield missing("rights", f"you may not {shown}; ask an administrator of the cluster (kubectl auth can-i --list)")


def _clocks(probed: Probed) -> Iterator[ProbeFinding]:
    ahead = probed.clock_ahead
    if ahead is None:
        yield note("clock", "the server sends no date")
    elif abs(ahead) > MAX_CLOCK_SKEW:
        side = "ahead of" if ahead > timedelta() else "behind"
        seconds = f"{abs(ahead).total_seconds():.0f} s"
        yield missing(
            "clock", f"the server's is {seconds} {side} this machine's; correct the one that is wrong (is NTP running?)"
        )
    else:
        yield ok("clock", "the server's and this machine's agree")


def _others(probed: Probed) -> Iterator[ProbeFinding]:
    facts, wants = probed.facts, probed.wants
    owners = {str(owner) for item in facts.namespaces.values() if (owner := _labels(item).get(CUSTOMER))}
    owners |= {customer} if (customer := _customer_of(facts.config)) else set()
    if strangers := sorted(owners - {wants.customer}) if wants.customer else ():
        yield missing(
            "ebbtide", f"the namespaces belong to {', '.join(strangers)}; one cluster holds one customer: use another"
        )
        return
    if isinstance(facts.controller, Denied):
        yield note("ebbtide", f"whether it is installed cannot be read: you need rights in namespace {NAMESPACE}")
        return
    image = _image_of(facts.controller)
    foreign = [
        name for name, item in facts.namespaces.items() if isinstance(item, dict) and CUSTOMER not in _labels(item)
    ]
    if foreign:
        taken = f"namespace {foreign[0]} exists and is not Ebbtide's, so pulumi up would not adopt it"
        yield missing("ebbtide", f"{taken}; delete it if nothing needs it")
    elif not image:
        yield ok("ebbtide", "not installed yet")
    elif wants.image and image != wants.image:
        yield note("ebbtide", f"{image} is installed, and pulumi up changes it to {wants.image}")
    else:
        yield ok("ebbtide", f"{image} is installed")


def _autoscaler(probed: Probed) -> Iterator[ProbeFinding]:
    name = autoscaler_name(probed.facts)
    if name:
        yield ok("autoscaler", name)
    else:
        yield note("autoscaler", "none found: workers still go to zero, but nodes stay until they are removed by hand")


def _network(probed: Probed) -> Iterator[ProbeFinding]:
    del probed
    yield note("network", "whether NetworkPolicies are enforced cannot be checked; it depends on the network plugin")


Rule: TypeAlias = Callable[[Probed], Iterator[ProbeFinding]]

RULES: tuple[Rule, ...] = (
    _identity,
    _version,
    _apis,
    _storage,
    _token,
    _metrics,
    _prometheus_operator,
    nodes_and_capacity,
    objects_of_others,
    ray_clusters,
    serving,
    adopted_pods,
    node_pools,
    message_brokers,
    _rights,
    _clocks,
    _others,
    _autoscaler,
    _network,
)


def _annotations(item: Json) -> Mapping[str, str]:
    return item["metadata"].get("annotations") or {}


def _labels(item: Answer) -> Mapping[str, str]:
    return item["metadata"].get("labels") or {} if isinstance(item, dict) else {}


def _customer_of(config: Answer) -> str:
    if not isinstance(config, dict):
        return ""
    data: Json = config.get("data") or {}
    try:
        return load(ControllerConfig, str(data.get("config.json", ""))).customer
    except UnreadableConfig:
        return ""  # written by another release; the image shows which


def _image_of(controller: Answer) -> str:
    containers: Sequence[Json] = (
        controller["spec"]["template"]["spec"].get("containers") or () if isinstance(controller, dict) else ()
    )
    return str(containers[0].get("image", "")) if containers else ""
