"""Secrets that the stack file has encrypted anew, and the pods that roll with them.

Nobody but Pulumi can read the values, and the same value is another text each time that it is encrypted. So a file
tells which values may have changed; the engine's own plan tells which have.
"""

from collections.abc import Iterator

from ebbtide.preview.dangers.compared import impact_on, listed
from ebbtide.preview.dangers.pods import WHILE_RESTARTING, WHILE_ROLLING
from ebbtide.preview.document import Danger, DangerCode, Severity
from ebbtide.preview.sides import Side
from ebbtide.recording.pods import Pods
from ebbtide.settings.pods import rolling_pods
from ebbtide.settings.sections.secrets import DIGEST_KEY, SECRETS
from ebbtide.vocabulary.labels import Category


def renewed_secrets(before: Side, after: Side) -> Iterator[Danger]:
    """Of pods that are there on both sides; a Secret of others is not in the file."""
    if before.settings is None or after.settings is None or before.state is None:
        return
    renewed = {at for at, text in after.encrypted.items() if before.encrypted.get(at, text) != text}
    every = (DIGEST_KEY,) in renewed
    values = {at[1:] for at in renewed if at[0] == SECRETS}
    there = {(pods.namespace, pods.name): pods for pods in before.state.pods}
    told: dict[tuple[Category, str], list[Pods]] = {}
    for name, entry, category in rolling_pods(after.settings):
        taken = {(secret, key) for _, secret, key in entry.pod.secret_references() if secret in after.settings.secrets}
        rolls = sorted(f"{secret}.{key}" for secret, key in values if {(secret, key), (secret, None)} & taken)
        why = ", ".join([*rolls[:2], *([f"{len(rolls) - 2} more"] if len(rolls) > 2 else [])])
        if (why or (every and taken)) and (entry.namespace, name) in there:
            told.setdefault((category, why or "the key of the digests"), []).append(there[entry.namespace, name])
    for (category, why), pods in told.items():
        names = tuple(each.name for each in pods)
        fixed = category is Category.FIXED
        doing = f"restarts {listed(names)} (fixed)" if fixed else f"rolls the pods of {listed(names)} ({category})"
        yield Danger(
            code=DangerCode.WORKLOAD_RESTARTED if fixed else DangerCode.PODS_ROLLED,
            severity=Severity.WARNING if fixed else Severity.NOTE,
            subjects=names,
            what=f"{doing} if a value has changed: {why} is encrypted anew",
            impact=impact_on(before.state, pods),
            fix=WHILE_RESTARTING if fixed else WHILE_ROLLING[category],
        )
