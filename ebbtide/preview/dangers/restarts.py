"""Dangers for pods that restart: their template changes, or a Secret of the stack file is encrypted again.

Only Pulumi can read the values of Secrets, and each encryption of the same value gives another text. So a file shows
which values may have changed; the engine's own plan shows which have.
"""

from collections.abc import Iterator, Mapping, Sequence

from ebbtide.findings import Severity
from ebbtide.preview.changes import identity
from ebbtide.preview.dangers.compared import Compared, impact_on, listed, paths_text
from ebbtide.preview.dangers.kinds import danger_kind
from ebbtide.preview.document import ChangeKind, Danger
from ebbtide.preview.sides import Side
from ebbtide.recording.pods import Pods
from ebbtide.recording.values import value_at
from ebbtide.settings import StackSettings
from ebbtide.settings.declared import rolling_pods
from ebbtide.settings.file.keys import DIGEST_KEY, SECRETS
from ebbtide.settings.sections.monitoring import ALERTMANAGER, PROMETHEUS
from ebbtide.settings.sections.redis import IN_CLUSTER_REDIS
from ebbtide.vocabulary.labels import CONTROLLER, Category

WORKLOAD_RESTARTED = danger_kind("workload-restarted", "fixed pods restart, or a job runs again", Severity.WARNING)
PODS_ROLLED = danger_kind("pods-rolled", "flexible pods or workers are replaced one after another", Severity.NOTE)
SERVICE_AWAY = danger_kind("service-away", "a service stops until its next pod is ready", Severity.WARNING)

_TEMPLATE = "spec.template."
_ALL, _ONLY = "all of its pods end", "the only one ends"
_WHILE_RESTARTING = "choose a time when losing their state and sessions is acceptable"
_WHILE_AWAY = "choose a time without requests; ebbtide check shows how the next pod can start first"
_OWN_PODS: Mapping[str, str] = {
    PROMETHEUS: "none needed: its data is on its disk, and about a minute of samples is missing",
    ALERTMANAGER: "none needed: silences are on its disk, and alerts come a little later",
    IN_CLUSTER_REDIS: "choose a quiet time: jobs are on its disk, and no job is added or taken until it is back",
}
_STATELESS = "none needed: it holds no state, and its work waits until it is back"
_WHILE_ROLLING: Mapping[Category, str] = {
    Category.FLEXIBLE: "none needed: a Deployment starts the next pod first; pods of a StatefulSet, and pods that "
    "fill their nodes, are replaced one after another",
    Category.WORKER: "none needed: each worker ends its job first, a quarter of the pool at a time",
}
"""Advice for a rollout. Budgets do not apply: they hold off evictions, and a rollout deletes pods."""


def restart_dangers(compared: Compared) -> Iterator[Danger]:
    yield from _restarted(compared)
    yield from _rolled(compared)


def _restarted(compared: Compared) -> Iterator[Danger]:
    """Fixed pods whose template changes; the controller tolerates a restart and is left out."""
    of_the_file = compared.after.settings.all_workloads
    for paths, pods in _with_new_template(compared, Category.FIXED):
        alike: dict[str, list[Pods]] = {}
        for entry in pods:
            fix = _WHILE_RESTARTING if entry.name in of_the_file else _OWN_PODS.get(entry.name, _STATELESS)
            alike.setdefault(fix, []).append(entry)
        for fix, entries in alike.items():
            names = tuple(entry.name for entry in entries)
            yield WORKLOAD_RESTARTED.danger(
                subjects=names,
                text=f"restarts {listed(names)} (fixed): {paths_text(paths)}",
                impact=compared.impact(entries),
                remedy=fix,
            )


def _rolled(compared: Compared) -> Iterator[Danger]:
    """Flexible pods and workers whose template changes, which is routine."""
    for category in _WHILE_ROLLING:
        for paths, pods in _with_new_template(compared, category):
            by_end: dict[str, list[Pods]] = {_ALL: [], _ONLY: [], "": []}
            for entry in pods:
                by_end[_end_first(compared, entry) if category is Category.FLEXIBLE else ""].append(entry)
            rolled = by_end.pop("")
            for which, away in by_end.items():
                yield from _away(compared, away, which, paths)
            names = tuple(entry.name for entry in rolled)
            if names:
                yield PODS_ROLLED.danger(
                    subjects=names,
                    text=f"rolls the pods of {listed(names)} ({category}): {paths_text(paths)}",
                    impact=compared.impact(rolled),
                    remedy=_rolling_fix(compared.before.settings, names, category),
                )


def _away(compared: Compared, pods: Sequence[Pods], which: str, paths: Sequence[str]) -> Iterator[Danger]:
    if pods:
        names = tuple(entry.name for entry in pods)
        yield SERVICE_AWAY.danger(
            subjects=names,
            text=f"stops {listed(names)} until the next pod is ready: {which} first; {paths_text(paths)}",
            impact=compared.impact(pods),
            remedy=_WHILE_AWAY,
        )


def _end_first(compared: Compared, old: Pods) -> str:
    """The pods that end before the next one starts, by the new strategy; "" if a pod serves at all times."""
    new = next(pods for before, pods in compared.pairs if before is old)
    strategy = value_at(new.resource.inputs, "spec.strategy")
    if value_at(strategy, "type") == "Recreate":
        return _ALL
    surge = value_at(strategy, "rollingUpdate.maxSurge") if value_at(strategy, "type") == "RollingUpdate" else 0
    return _ONLY if new.kind == "Deployment" and new.replicas == 1 and surge == 0 else ""


def _rolling_fix(settings: StackSettings, names: Sequence[str], category: Category) -> str:
    """Return the advice, with another one for pools whose workers do not end their jobs first. The workers that stop
    have the earlier settings.
    """
    fix, pools = _WHILE_ROLLING[category], settings.workers
    if saving := [name for name in names if name in pools and pools[name].checkpoints is not None]:
        fix += f"; in {listed(saving)} a job with a checkpoint saves and returns to the queue instead"
    unsafe = [name for name in names if name in pools and not pools[name].safe_stop]
    idle = f"update while {listed(unsafe)} {'is' if len(unsafe) == 1 else 'are'} idle (ebbtide status): without a safe "
    idle += "stop a worker that ends may lose its job"
    return fix if not unsafe else idle if len(unsafe) == len(names) else f"{fix}; but {idle}"


def _with_new_template(compared: Compared, category: Category) -> Iterator[tuple[tuple[str, ...], list[Pods]]]:
    """Pods of this category on both sides, by the changed paths of their template. Replacements are losses."""
    alike: dict[tuple[str, ...], list[Pods]] = {}
    for old, new in compared.pairs:
        change = compared.changed.get(identity(new.resource.urn))
        if change is None or change.kind is not ChangeKind.UPDATE or not new.lasting or new.name == CONTROLLER:
            continue
        paths = [field.path for field in change.fields if field.path.startswith(_TEMPLATE)]
        if paths and old.category is new.category is category:
            alike.setdefault(tuple(_within_pod(path, old.name) for path in paths), []).append(old)
    yield from alike.items()


def _within_pod(path: str, name: str) -> str:
    """The path below the pod, or below the container that has the pod's name: then equal changes are one danger."""
    return path.removeprefix(_TEMPLATE).removeprefix(f"spec.containers[{name}].")


def renewed_secrets(before: Side, after: Side) -> Iterator[Danger]:
    """Pods on both sides that use a Secret whose encrypted text changes; other Secrets are not in the file."""
    if before.settings is None or after.settings is None or before.state is None:
        return
    renewed = {location for location, text in after.encrypted.items() if before.encrypted.get(location, text) != text}
    every = (DIGEST_KEY,) in renewed
    values = {location[1:] for location in renewed if location[0] == SECRETS}
    old_pods = {(pods.namespace, pods.name): pods for pods in before.state.pods}
    rolled: dict[tuple[Category, str], list[Pods]] = {}
    for entry in rolling_pods(after.settings):
        used_keys = {(secret, key) for secret, key in entry.pod.own_secrets() if secret in after.settings.secrets}
        reasons = sorted(f"{secret}.{key}" for secret, key in values if {(secret, key), (secret, None)} & used_keys)
        why = ", ".join([*reasons[:2], *([f"{len(reasons) - 2} more"] if len(reasons) > 2 else [])])
        if (why or (every and used_keys)) and (entry.namespace, entry.name) in old_pods:
            old = old_pods[entry.namespace, entry.name]
            rolled.setdefault((entry.category, why or "the key of the digests"), []).append(old)
    for (category, why), pods in rolled.items():
        names = tuple(entry.name for entry in pods)
        fixed = category is Category.FIXED
        effect = f"restarts {listed(names)} (fixed)" if fixed else f"rolls the pods of {listed(names)} ({category})"
        yield (WORKLOAD_RESTARTED if fixed else PODS_ROLLED).danger(
            subjects=names,
            text=f"{effect} if a value has changed: {why} is encrypted again",
            impact=impact_on(before.state, pods),
            remedy=_WHILE_RESTARTING if fixed else _rolling_fix(before.settings, names, category),
        )
