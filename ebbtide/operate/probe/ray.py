"""Check that a cluster is ready for a stack's Ray clusters: one line for each possible fault. Pure.

Before the first `pulumi up` no object counts as missing: a Ray namespace that does not exist yet is a single note.
"""

from collections.abc import Iterator, Sequence

from components.definitions import crds, version
from controllers.adapters.kube_api import Json
from ebbtide.operate.objects import Document, annotations_of, at, labels_of, rows_at
from ebbtide.operate.probe.facts import Answer, Denied, ObjectState, ObjectWant, RayProbe, RayWant, Right
from ebbtide.operate.probe.findings import Probed, ProbeFinding, missing, note, ok
from ebbtide.provisioning_labels import CUSTOMER
from ebbtide.settings.sections.ray import RAY_OPERATOR
from ebbtide.vocabulary.labels import NAMESPACE

_LEVEL = "pod-security.kubernetes.io/enforce"
_WATCH = "--watch-namespace"
_GENERATOR = "controller-gen.kubebuilder.io/version"


def ray_clusters(probed: Probed) -> Iterator[ProbeFinding]:
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


def _definitions(facts: RayProbe) -> ProbeFinding:
    """Compare releases: an operator silently drops fields of another release's definitions."""
    subject, others = "ray definitions", list[str]()
    for crd in crds("kuberay"):
        definition = facts.definitions.get(crd.name)
        if isinstance(definition, Denied):
            return note(subject, "cannot be read: you need the right to get customresourcedefinitions")
        if definition is not None and not _same(crd.spec, definition):
            generator = annotations_of(definition).get(_GENERATOR, "unknown")
            others.append(f"{crd.name} (controller-gen {generator})")
    if others:
        return missing(
            subject,
            f"wanted KubeRay's {version('kuberay')}, found others: {', '.join(others)}; pulumi up replaces them",
        )
    absent = [crd.name for crd in crds("kuberay") if facts.definitions.get(crd.name) is None]
    if absent:
        return note(
            subject, f"not there yet: {', '.join(absent)}; pulumi up creates those of KubeRay {version('kuberay')}"
        )
    return ok(subject, f"KubeRay {version('kuberay')}")


def _same(expected: Json, definition: Json) -> bool:
    """Compare the fields that each version stores."""

    def schemas(versions: Sequence[Json]) -> dict[str, object]:
        return {str(row["name"]): at(row, "schema", "openAPIV3Schema", "properties", "spec") for row in versions}

    ours, theirs = schemas(expected["versions"]), schemas(at(definition, "spec", "versions") or ())
    return all(theirs.get(name) == schema for name, schema in ours.items())


def _operators(facts: RayProbe, spaces: Sequence[str]) -> ProbeFinding:
    subject = "ray operator"
    if not isinstance(facts.deployments, dict):
        return note(subject, "whether another KubeRay operator runs cannot be read: you need to list deployments")
    deployments = rows_at(facts.deployments, "items")
    for item in deployments:
        metadata = item["metadata"]
        ours = (metadata["namespace"], metadata["name"]) == (NAMESPACE, RAY_OPERATOR)
        if ours or at(item, "spec", "replicas") == 0 or not (container := _kuberay(item)):
            continue
        watched = _watched(container)
        if watched and not {*watched} & {*spaces}:
            continue
        name, where = f"{metadata['namespace']}/{metadata['name']}", ", ".join(watched) or "all namespaces"
        advice = f"remove it, or let it watch others ({_WATCH})"
        return missing(subject, f"{name} watches {where} too, and two operators make each pod twice; {advice}")
    more = (
        f"; only the first {len(deployments)} deployments were checked"
        if at(facts.deployments, "metadata", "continue")
        else ""
    )
    return ok(subject, f"no other one watches {', '.join(spaces)}{more}")


def _existing_operator(facts: RayProbe, spaces: Sequence[str]) -> ProbeFinding:
    """Check an existing operator, for a stack without its own: it has to watch each namespace."""
    subject = "ray operator"
    if not isinstance(facts.deployments, dict):
        return note(subject, "whether a KubeRay operator runs cannot be read: you need to list deployments")
    running = [item for item in rows_at(facts.deployments, "items") if at(item, "spec", "replicas") != 0]
    watched = [_watched(container) for item in running if (container := _kuberay(item))]
    unwatched = [space for space in spaces if not any(not names or space in names for names in watched)]
    if unwatched:
        return missing(
            subject, f"no installed one watches {', '.join(unwatched)}; install one, or set rayOperator: bundled"
        )
    return ok(subject, f"an installed one watches {', '.join(spaces)}")


def _kuberay(deployment: Document) -> Document:
    """Return the operator's container; empty if the Deployment is not KubeRay's."""
    labelled = labels_of(deployment).get("app.kubernetes.io/name") == RAY_OPERATOR
    for container in rows_at(deployment, "spec", "template", "spec", "containers"):
        image = str(container.get("image"))
        if labelled or ("kuberay" in image and "operator" in image):
            return container
    return {}


def _watched(container: Document) -> list[str]:
    """Return the namespaces of the operator's flag; none means all."""
    words = [str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ()))]
    for index, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag.lstrip("-") == _WATCH.lstrip("-"):
            value = value if equals else next(iter(words[index + 1 :]), "")
            return [name.strip() for name in value.split(",") if name.strip()]
    return []


def _pod_security(want: RayWant, space: Answer) -> ProbeFinding:
    subject = f"ray {want.cluster} namespace"
    if not isinstance(space, dict):
        return note(subject, f"{want.namespace} cannot be read: you need the right to get namespaces")
    labels = labels_of(space)
    if CUSTOMER not in labels:
        return missing(
            subject, f"{want.namespace} is not Ebbtide's, so pulumi up would not adopt it; delete it if unused"
        )
    level = labels.get(_LEVEL, "nothing")
    if level != "restricted":
        return missing(
            subject, f"{want.namespace} enforces {level}, wanted {_LEVEL}=restricted; pulumi up sets it again"
        )
    return ok(subject, f"{want.namespace} enforces restricted")


def _tokens(want: RayWant, facts: RayProbe) -> ProbeFinding:
    """Compare the copies: the head refuses a driver with another token, and the controller could not let Ray sleep."""
    subject = f"ray {want.cluster} token"
    states = {token: facts.tokens[token] for token in want.tokens}
    if unread := [token.namespace for token, state in states.items() if isinstance(state, Denied)]:
        return note(subject, f"cannot be compared: you need the right to get secrets in {', '.join(unread)}")
    if lacking := [str(token) for token, state in states.items() if state is None]:
        return missing(subject, f"not there: {', '.join(lacking)}; pulumi up writes it")
    if keyless := [str(token) for token, state in states.items() if not _has_keys(token, state)]:
        return missing(
            subject, f"lacks the key {', '.join(want.tokens[0].keys)}: {', '.join(keyless)}; pulumi up writes it"
        )
    digests = {token.namespace: state.digest for token, state in states.items() if isinstance(state, ObjectState)}
    if others := [space for space, digest in digests.items() if digest != digests[want.namespace]]:
        differs = f"the one in {' and '.join(others)} differs from {want.namespace}'s, and the head refuses it"
        return missing(subject, f"{differs}; pulumi up --refresh writes it again")
    return ok(subject, f"the same in {', '.join(digests)}")


def _has_keys(token: ObjectWant, state: object) -> bool:
    return isinstance(state, ObjectState) and {*token.keys} <= state.keys


def _admission(want: RayWant, facts: RayProbe) -> ProbeFinding:
    subject = f"ray {want.cluster} admission"
    if isinstance(facts.policy, Denied):
        return note(subject, "cannot be read: you need the right to get validatingadmissionpolicies")
    if facts.policy is None:
        return missing(
            subject, "no policy limits what the workload controller may write to a RayCluster; pulumi up creates it"
        )
    return ok(subject, "the workload controller may write only the spec and one annotation")


def _accounts(want: RayWant, facts: RayProbe) -> Iterator[ProbeFinding]:
    for user, (name, rights) in want.accounts.items():
        lacking = facts.lacking[want.namespace, user]
        subject = f"ray {want.cluster} {name}"
        if isinstance(lacking, Denied):
            yield note(subject, "its rights cannot be read: you need the right to create subjectaccessreviews")
        elif lacking:
            yield missing(subject, f"{user} may not {_listed(rights, lacking)}; pulumi up grants it")
        else:
            yield ok(subject, "has all rights that it needs")


def _listed(rights: Sequence[Right], lacking: frozenset[Right]) -> str:
    texts = [str(right) for right in rights if right in lacking]
    return "; ".join(texts[:3]) + (f"; and {len(texts) - 3} more" if len(texts) > 3 else "")
