"""What Ebbtide needs of a cluster, one rule each: facts and the wants of a stack in, a verdict in one line out. Pure.

`missing` names what to do about it; `note` is what a probe cannot know, or what works worse and not wrong.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TypeAlias

from controllers.adapters.kube_api import Json
from ebbtide.cli.probe_facts import Denied, Seen
from ebbtide.cli.probe_nodes import autoscaler_name, nodes_and_room
from ebbtide.cli.probe_verdicts import Probed, Verdict, missing, note, ok
from ebbtide.settings.kubernetes_versions import KUBERNETES_VERSIONS
from ebbtide.settings.redis_token import SET_TOKEN, TOKEN_WANTED
from ebbtide.vocabulary.controller_config import UnreadableConfig, load
from ebbtide.vocabulary.labels import CUSTOMER, NAMESPACE

OLDEST = (1, 30)
"""ValidatingAdmissionPolicy is v1 since then (kubernetes.io, Validating Admission Policy, feature state)."""

FARTHEST_CLOCK = timedelta(seconds=60)
"""As far apart as the controller lets its clocks be before it keeps every budget closed."""

_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def verdicts_of(probed: Probed) -> list[Verdict]:
    return [verdict for rule in RULES for verdict in rule(probed)]


def _identity(probed: Probed) -> Iterator[Verdict]:
    seen, wanted = probed.facts.identity, probed.wants.cluster_id
    if not isinstance(seen, dict):
        yield note("cluster", "its id cannot be seen: that takes the right to get the namespace kube-system")
        return
    found = str(seen["metadata"]["uid"])
    if wanted is None:
        yield ok("cluster", f'{found}; to be held to it, write clusterId: "{found}" into ebbtide:cluster')
    elif wanted == found:
        yield ok("cluster", found)
    else:
        yield missing("cluster", f"wanted {wanted}, found {found}: another cluster; use the right kubeconfig")


def _version(probed: Probed) -> Iterator[Verdict]:
    version = probed.facts.version
    match = re.match(r"v?(\d+)\.(\d+)", version)
    newest = KUBERNETES_VERSIONS[-1]
    if match is None:
        yield note("version", f"the server tells none that is understood: {version!r}")
        return
    minor = int(match[1]), int(match[2])
    if minor < OLDEST:
        yield missing("version", f"{version}; upgrade to 1.{OLDEST[1]} or later, which has admission policies as v1")
    elif minor > tuple(int(part) for part in newest.split(".")):
        yield note("version", f"{version}; Ebbtide is tested up to {newest}")
    else:
        yield ok("version", version)


def _apis(probed: Probed) -> Iterator[Verdict]:
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


def _storage(probed: Probed) -> Iterator[Verdict]:
    seen = probed.facts.storage_classes
    if not probed.wants.volumes:
        yield ok("storage", "none wanted: Redis is elsewhere")
        return
    if not isinstance(seen, dict):
        yield note("storage", "storage classes cannot be seen; Redis needs a default one")
        return
    classes: Sequence[Json] = seen.get("items") or ()
    names = [str(item["metadata"]["name"]) for item in classes]
    if (named := probed.wants.storage_class) is not None:
        yield ok("storage", f"class {named}") if named in names else _no_class(f"no class {named}", names)
        return
    default = [item["metadata"]["name"] for item in classes if _annotations(item).get(_DEFAULT_CLASS) == "true"]
    if len(default) == 1:
        yield ok("storage", f"default class {default[0]}")
    elif default:
        yield note("storage", f"several default classes, of which the newest counts: {', '.join(default)}")
    else:
        yield _no_class("no default class", names)


def _token(probed: Probed) -> Iterator[Verdict]:
    if not probed.wants.token:
        return
    if probed.token_fault is None:
        yield note("token", "pulumi config get does not tell it here; pulumi up checks it before it makes anything")
    elif probed.token_fault:
        yield missing("token", f"wanted {TOKEN_WANTED}, found {probed.token_fault}; {SET_TOKEN}")
    else:
        yield ok("token", "one that ElastiCache takes")


def _no_class(lacking: str, names: Sequence[str]) -> Verdict:
    there = ", ".join(names) or "no class at all"
    make = f'kubectl annotate storageclass NAME {_DEFAULT_CLASS}="true"'
    return missing(
        "storage", f"{lacking} for the volume of Redis, found {there}; {make}, or name one in redis.storageClass"
    )


def _metrics(probed: Probed) -> Iterator[Verdict]:
    if "metrics.k8s.io/v1beta1" in probed.facts.apis:
        yield ok("metrics", "metrics.k8s.io")
    elif probed.wants.metrics:
        yield missing("metrics", "no metrics.k8s.io, which replicasOwner hpa needs; install the metrics server")
    else:
        yield note("metrics", "no metrics.k8s.io; nothing of Ebbtide needs it, kubectl top does")


def _rights(probed: Probed) -> Iterator[Verdict]:
    denied = sorted(probed.facts.denied)
    if not denied:
        yield ok("rights", "yours are enough for pulumi up and pulumi destroy")
        return
    shown = "; ".join(map(str, denied[:3])) + (f"; and {len(denied) - 3} more" if len(denied) > 3 else "")
    yield missing("rights", f"you may not {shown}; ask whoever grants rights (kubectl auth can-i --list)")


def _clocks(probed: Probed) -> Iterator[Verdict]:
    ahead = probed.clock_ahead
    if ahead is None:
        yield note("clock", "the server sends no date")
    elif abs(ahead) > FARTHEST_CLOCK:
        side = "ahead of" if ahead > timedelta() else "behind"
        seconds = f"{abs(ahead).total_seconds():.0f} s"
        yield missing(
            "clock", f"the server's is {seconds} {side} this machine's; set right whichever is wrong (is NTP running?)"
        )
    else:
        yield ok("clock", "the server's and this machine's agree")


def _others(probed: Probed) -> Iterator[Verdict]:
    facts, wants = probed.facts, probed.wants
    owners = {str(owner) for seen in facts.namespaces.values() if (owner := _labels(seen).get(CUSTOMER))}
    owners |= {customer} if (customer := _customer_of(facts.config)) else set()
    if strangers := sorted(owners - {wants.customer}) if wants.customer else ():
        yield missing(
            "ebbtide", f"the namespaces belong to {', '.join(strangers)}; one cluster holds one customer: use another"
        )
        return
    if isinstance(facts.controller, Denied):
        yield note("ebbtide", f"whether one is installed cannot be seen: that takes rights in namespace {NAMESPACE}")
        return
    image = _image_of(facts.controller)
    foreign = [
        name for name, seen in facts.namespaces.items() if isinstance(seen, dict) and CUSTOMER not in _labels(seen)
    ]
    if foreign:
        taken = f"namespace {foreign[0]} is there and not Ebbtide's, so pulumi up would not take it over"
        yield missing("ebbtide", f"{taken}; delete it if nothing needs it")
    elif not image:
        yield ok("ebbtide", "none is installed yet")
    elif wants.image and image != wants.image:
        yield note("ebbtide", f"{image} is installed, and pulumi up changes it to {wants.image}")
    else:
        yield ok("ebbtide", f"{image} is installed")


def _autoscaler(probed: Probed) -> Iterator[Verdict]:
    name = autoscaler_name(probed.facts)
    if name:
        yield ok("autoscaler", name)
    else:
        said = "none seen: workers go to zero all the same, and nodes stay until somebody removes them"
        yield note("autoscaler", said)


def _network(probed: Probed) -> Iterator[Verdict]:
    del probed
    yield note("network", "whether NetworkPolicies are enforced cannot be asked; it is up to the network plugin")


Rule: TypeAlias = Callable[[Probed], Iterator[Verdict]]

RULES: tuple[Rule, ...] = (
    _identity,
    _version,
    _apis,
    _storage,
    _token,
    _metrics,
    nodes_and_room,
    _rights,
    _clocks,
    _others,
    _autoscaler,
    _network,
)


def _annotations(item: Json) -> Mapping[str, str]:
    return item["metadata"].get("annotations") or {}


def _labels(seen: Seen) -> Mapping[str, str]:
    return seen["metadata"].get("labels") or {} if isinstance(seen, dict) else {}


def _customer_of(config: Seen) -> str:
    if not isinstance(config, dict):
        return ""
    data: Json = config.get("data") or {}
    try:
        return load(str(data.get("config.json", ""))).customer
    except UnreadableConfig:
        return ""  # of another release; the image says which


def _image_of(controller: Seen) -> str:
    containers: Sequence[Json] = (
        controller["spec"]["template"]["spec"].get("containers") or () if isinstance(controller, dict) else ()
    )
    return str(containers[0].get("image", "")) if containers else ""
