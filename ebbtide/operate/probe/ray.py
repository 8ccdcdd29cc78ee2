"""Whether a cluster is sound for the Ray clusters of a stack: one line for each thing that may be wrong. Pure.

What `pulumi up` makes is not missing before it has run: a namespace of Ray that is not there yet is one note.
"""

from collections.abc import Iterator, Sequence

from components.definitions import crds, version
from controllers.adapters.kube_api import Json
from ebbtide.operate.objects import Document, annotations_of, at, labels_of, rows_at
from ebbtide.operate.probe.facts import Answer, Denied, ObjectWant, RayFacts, RayWant, Right, Seen
from ebbtide.operate.probe.findings import Finding, Probed, missing, note, ok
from ebbtide.provisioning_labels import CUSTOMER
from ebbtide.settings.sections.ray import RAY_OPERATOR
from ebbtide.vocabulary.labels import NAMESPACE

_LEVEL = "pod-security.kubernetes.io/enforce"
_WATCH = "--watch-namespace"
_GENERATOR = "controller-gen.kubebuilder.io/version"


def ray_clusters(probed: Probed) -> Iterator[Finding]:
    facts = probed.facts.ray
    if facts is None:
        return
    spaces, brings = [want.namespace for want in probed.wants.ray], probed.wants.ray[0].brings_operator
    if brings:
        yield _definitions(facts)
    yield _operators(facts, spaces) if brings else _existing_operator(facts, spaces)
    for want in probed.wants.ray:
        space = probed.facts.namespaces.get(want.namespace)
        if space is None:
            yield note(f"ray {want.cluster}", f"namespace {want.namespace} is not there yet: pulumi up makes it")
            continue
        yield from (_pod_security(want, space), _tokens(want, facts), _admission(want, facts))
        yield from _accounts(want, facts)


def _definitions(facts: RayFacts) -> Finding:
    """The operator of one release and definitions of another do not fit: fields that one lacks are dropped silently."""
    what, others = "ray definitions", list[str]()
    for crd in crds("kuberay"):
        found = facts.definitions.get(crd.name)
        if isinstance(found, Denied):
            return note(what, "cannot be read: you need the right to get customresourcedefinitions")
        if found is not None and not _same(crd.spec, found):
            generator = annotations_of(found).get(_GENERATOR, "unknown")
            others.append(f"{crd.name} (controller-gen {generator})")
    if others:
        return missing(
            what, f"wanted KubeRay's {version('kuberay')}, found others: {', '.join(others)}; pulumi up replaces them"
        )
    absent = [crd.name for crd in crds("kuberay") if facts.definitions.get(crd.name) is None]
    if absent:
        return note(what, f"not there yet: {', '.join(absent)}; pulumi up makes them, of KubeRay {version('kuberay')}")
    return ok(what, f"KubeRay {version('kuberay')}")


def _same(wanted: Json, found: Json) -> bool:
    """By the fields that each version stores."""

    def schemas(versions: Sequence[Json]) -> dict[str, object]:
        return {str(it["name"]): at(it, "schema", "openAPIV3Schema", "properties", "spec") for it in versions}

    ours, theirs = schemas(wanted["versions"]), schemas(at(found, "spec", "versions") or ())
    return all(theirs.get(name) == schema for name, schema in ours.items())


def _operators(facts: RayFacts, spaces: Sequence[str]) -> Finding:
    what = "ray operator"
    if not isinstance(facts.deployments, dict):
        return note(what, "whether another KubeRay operator runs cannot be read: you need to list deployments")
    found = rows_at(facts.deployments, "items")
    for item in found:
        metadata = item["metadata"]
        ours = (metadata["namespace"], metadata["name"]) == (NAMESPACE, RAY_OPERATOR)
        if ours or at(item, "spec", "replicas") == 0 or not (container := _kuberay(item)):
            continue
        watched = _watched(container)
        if watched and not {*watched} & {*spaces}:
            continue
        named, where = f"{metadata['namespace']}/{metadata['name']}", ", ".join(watched) or "all namespaces"
        advice = f"remove it, or let it watch others ({_WATCH})"
        return missing(what, f"{named} watches {where} too, and two operators make each pod twice; {advice}")
    more = (
        f"; only the first {len(found)} deployments were checked"
        if at(facts.deployments, "metadata", "continue")
        else ""
    )
    return ok(what, f"no other one watches {', '.join(spaces)}{more}")


def _existing_operator(facts: RayFacts, spaces: Sequence[str]) -> Finding:
    """Of a stack that brings none: the one that is there has to watch each namespace."""
    what = "ray operator"
    if not isinstance(facts.deployments, dict):
        return note(what, "whether a KubeRay operator runs cannot be read: you need to list deployments")
    running = [it for it in rows_at(facts.deployments, "items") if at(it, "spec", "replicas") != 0]
    watched = [_watched(container) for it in running if (container := _kuberay(it))]
    lonely = [space for space in spaces if not any(not names or space in names for names in watched)]
    if lonely:
        return missing(
            what, f"none that is there watches {', '.join(lonely)}; install one, or set rayOperator: bundled"
        )
    return ok(what, f"one that is there watches {', '.join(spaces)}")


def _kuberay(deployment: Document) -> Document:
    """Its container; empty where it is none of KubeRay."""
    named = labels_of(deployment).get("app.kubernetes.io/name") == RAY_OPERATOR
    for container in rows_at(deployment, "spec", "template", "spec", "containers"):
        image = str(container.get("image"))
        if named or ("kuberay" in image and "operator" in image):
            return container
    return {}


def _watched(container: Document) -> list[str]:
    """The namespaces of its flag; none for all of them."""
    words = [str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ()))]
    for at_, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag.lstrip("-") == _WATCH.lstrip("-"):
            value = value if equals else next(iter(words[at_ + 1 :]), "")
            return [name.strip() for name in value.split(",") if name.strip()]
    return []


def _pod_security(want: RayWant, space: Answer) -> Finding:
    what = f"ray {want.cluster} namespace"
    if not isinstance(space, dict):
        return note(what, f"{want.namespace} cannot be read: you need the right to get namespaces")
    labels = labels_of(space)
    if CUSTOMER not in labels:
        return missing(what, f"{want.namespace} is not Ebbtide's, so pulumi up would not adopt it; delete it if unused")
    level = labels.get(_LEVEL, "nothing")
    if level != "restricted":
        return missing(what, f"{want.namespace} enforces {level}, wanted {_LEVEL}=restricted; pulumi up sets it again")
    return ok(what, f"{want.namespace} enforces restricted")


def _tokens(want: RayWant, facts: RayFacts) -> Finding:
    """A driver with another token is refused by the head, and a controller with another one never lets it sleep."""
    what = f"ray {want.cluster} token"
    seen = {token: facts.tokens[token] for token in want.tokens}
    if unread := [token.namespace for token, it in seen.items() if isinstance(it, Denied)]:
        return note(what, f"cannot be compared: you need the right to get secrets in {', '.join(unread)}")
    if lacking := [str(token) for token, it in seen.items() if it is None]:
        return missing(what, f"not there: {', '.join(lacking)}; pulumi up writes it")
    if keyless := [str(token) for token, it in seen.items() if not _has_keys(token, it)]:
        return missing(
            what, f"lacks the key {', '.join(want.tokens[0].keys)}: {', '.join(keyless)}; pulumi up writes it"
        )
    digests = {token.namespace: it.digest for token, it in seen.items() if isinstance(it, Seen)}
    if others := [space for space, digest in digests.items() if digest != digests[want.namespace]]:
        said = f"the one in {' and '.join(others)} is another than in {want.namespace}, and the head refuses it"
        return missing(what, f"{said}; pulumi up --refresh writes it again")
    return ok(what, f"the same in {', '.join(digests)}")


def _has_keys(token: ObjectWant, seen: object) -> bool:
    return isinstance(seen, Seen) and {*token.keys} <= seen.keys


def _admission(want: RayWant, facts: RayFacts) -> Finding:
    what = f"ray {want.cluster} admission"
    if isinstance(facts.policy, Denied):
        return note(what, "cannot be read: you need the right to get validatingadmissionpolicies")
    if facts.policy is None:
        return missing(what, "no policy bounds what the workload controller writes of a RayCluster; pulumi up makes it")
    return ok(what, "the workload controller may write the spec and one annotation alone")


def _accounts(want: RayWant, facts: RayFacts) -> Iterator[Finding]:
    for user, (called, rights) in want.accounts.items():
        lacks = facts.lacking[want.namespace, user]
        what = f"ray {want.cluster} {called}"
        if isinstance(lacks, Denied):
            yield note(what, "what it may do cannot be read: you need to create subjectaccessreviews")
        elif lacks:
            yield missing(what, f"{user} may not {_listed(rights, lacks)}; pulumi up grants it")
        else:
            yield ok(what, "may do what it must")


def _listed(rights: Sequence[Right], lacks: frozenset[Right]) -> str:
    named = [str(right) for right in rights if right in lacks]
    return "; ".join(named[:3]) + (f"; and {len(named) - 3} more" if len(named) > 3 else "")
