"""What a change of a pool's checkpoints means for its jobs: less time to stop, interruptions, spot nodes."""

from collections.abc import Iterator

from ebbtide.preview.dangers.compared import Compared
from ebbtide.preview.document import Danger, DangerCode, Severity
from ebbtide.provisioning_labels import POOL
from ebbtide.recording.pods import Pods
from ebbtide.settings.sections.checkpoints import CheckpointSettings, Interruptible
from ebbtide.settings.sections.workers import WorkerSettings, grace_seconds
from ebbtide.units.durations import format_duration

_WHEN = {
    Interruptible.IN_WINDOW: "in the disruption window, one at a time",
    Interruptible.ALWAYS: "at any time, in business hours too, one at a time",
}


def workers_of(compared: Compared, pool: str) -> list[Pods]:
    return [pods for pods in compared.before.pods if pods.labels.get(POOL) == pool]


def checkpoint_dangers(compared: Compared) -> Iterator[Danger]:
    before = compared.before.settings.workers
    for name, pool in compared.after.settings.workers.items():
        if name not in before:
            continue
        yield from _less_grace(compared, name, before[name], pool)
        if pool.checkpoints is not None:
            yield from _interruptible(compared, name, before[name].checkpoints, pool.checkpoints)
        elif before[name].checkpoints is not None:
            yield _left_open(compared, name)
        if compared.after.settings.on_spot(pool) and not compared.before.settings.on_spot(before[name]):
            yield _moves_to_spot(compared, name, pool)


def _less_grace(compared: Compared, name: str, old: WorkerSettings, new: WorkerSettings) -> Iterator[Danger]:
    """Without `required` it is the longest job that got shorter, which has a danger of its own."""
    was, now = grace_seconds(old), grace_seconds(new)
    if new.checkpoints is not None and new.checkpoints.required and now < was:
        opens = format_duration(new.checkpoints.open_within)
        yield Danger(
            code=DangerCode.GRACE_SHORTENED,
            severity=Severity.WARNING,
            subjects=(name,),
            what=f"gives a stopped worker of pool {name} {now} s instead of {was} s: its jobs must save",
            impact=compared.impact(workers_of(compared, name)),
            fix=f"see that each of its jobs opens a checkpoint within {opens}: one that does not is failed",
        )


def _interruptible(
    compared: Compared, name: str, old: CheckpointSettings | None, new: CheckpointSettings
) -> Iterator[Danger]:
    if old is None or (new.interruptible is Interruptible.ALWAYS and old.interruptible is not new.interruptible):
        yield Danger(
            code=DangerCode.JOBS_INTERRUPTIBLE,
            severity=Severity.WARNING,
            subjects=(name,),
            what=f"lets workers of pool {name} be moved {_WHEN[new.interruptible]}; their jobs go on elsewhere",
            impact=compared.impact(workers_of(compared, name)),
            fix="see that its jobs use checkpoints: one without is waited for, up to the grace of its worker",
        )


def _left_open(compared: Compared, name: str) -> Danger:
    """The controller loses the right to the budget and the word that it is to be closed."""
    return Danger(
        code=DangerCode.BUDGET_LEFT_OPEN,
        severity=Severity.WARNING,
        subjects=(name,),
        what=f"takes the checkpoints from pool {name}: an open budget then stays open",
        impact=compared.impact(workers_of(compared, name)),
        fix="do it in business hours, when the budget is closed, and with interruptible: inWindow before",
    )


def _moves_to_spot(compared: Compared, name: str, pool: WorkerSettings) -> Danger:
    told = "two minutes after a notice" if pool.must_save else "mostly without a notice to the worker"
    return Danger(
        code=DangerCode.POOL_ON_SPOT,
        severity=Severity.WARNING,
        subjects=(name,),
        what=f"moves pool {name} to spot nodes of group {pool.node_group}, which AWS takes back {told}",
        impact=compared.impact(workers_of(compared, name)),
        fix="docs/explanation/spot.md says what its jobs must bear"
        if pool.must_save
        else "give it checkpoints, required: true",
    )
