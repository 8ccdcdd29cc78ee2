"""Dangers of a change that a reviewer must see before it is merged, the worst first.

Dangers judge the change from one state to another. Faults of one state are for the policies (`ebbtide.policies`),
whether they are new or not.

Blocking: Pulumi or AWS refuses the change, it destroys the entire stack, or it kills pods that are never moved.
Warning: the change is usually intended, and there is a right way to make it. Note: information.
"""

from collections.abc import Iterator, Sequence

from ebbtide.preview.dangers.compared import Compared, impact_on_all
from ebbtide.preview.dangers.conflicts import disks_out_of_reach, names_in_use
from ebbtide.preview.dangers.losses import everything_goes, losses
from ebbtide.preview.dangers.nodes import node_dangers
from ebbtide.preview.dangers.pods import pod_dangers
from ebbtide.preview.dangers.provisioners import provisioner_dangers
from ebbtide.preview.dangers.restarts import renewed_secrets
from ebbtide.preview.document import Danger, DangerCode, ResourceChange, Severity
from ebbtide.preview.sides import Side
from ebbtide.recording.state import StackState

_ORDER = tuple(Severity)


def dangers_of(
    before: Side | None, after: Side | None, changes: Sequence[ResourceChange], *, planned: bool = False
) -> tuple[Danger, ...]:
    """Sorted by severity. A side that cannot be read counts as missing; without a later side no danger is known.

    `planned`: the changes come from the engine, which has read the Secrets.
    """
    if after is None:
        return () if before is None else (_file_removed(before),)
    if after.state is None:
        return ()
    dangers = [*_change_dangers(None if before is None else before.state, after.state, changes)]
    if before is not None and not planned:
        dangers += renewed_secrets(before, after)
    return tuple(sorted(dangers, key=lambda danger: _ORDER.index(danger.severity)))


def _change_dangers(
    before: StackState | None, after: StackState, changes: Sequence[ResourceChange]
) -> Iterator[Danger]:
    moves = None if before is None else _stack_moves(before, after)
    if moves is not None:
        yield moves
        return
    if before is not None:
        yield from _context_changes(before, after)
    # Without an earlier file the engine's plan still replaces resources, and the later side describes them best.
    compared = Compared(before=before or after, after=after, changes=changes)
    yield from losses(compared)
    yield from names_in_use(compared)
    if not everything_goes(changes):
        yield from node_dangers(compared)
        yield from provisioner_dangers(compared)
        yield from pod_dangers(compared)
        yield from disks_out_of_reach(compared)


def _stack_moves(before: StackState, after: StackState) -> Danger | None:
    """Another region or kind of cluster: resources have the same names, but none of the old ones exist there."""
    old, new = before.settings, after.settings
    if (old.cluster.kind, old.region) == (new.cluster.kind, new.region):
        return None
    return Danger(
        code=DangerCode.STACK_MOVES,
        severity=Severity.BLOCKING,
        subjects=(old.stack,),
        what=f"moves the stack from {old.place} to {new.place}: everything is created again there",
        impact=impact_on_all(before),
        fix="write a second stack file for the new place, move, then take this one down",
    )


def _context_changes(before: StackState, after: StackState) -> Iterator[Danger]:
    """Pulumi cannot distinguish a renamed context from one of another cluster; only the cluster's id can."""
    old, new = before.settings.cluster, after.settings.cluster
    if old.context != new.context and (new.cluster_id is None or new.cluster_id != old.cluster_id):
        yield Danger(
            code=DangerCode.CONTEXT_CHANGES,
            severity=Severity.WARNING,
            subjects=(str(old.context), str(new.context)),
            what=f"uses the cluster of context {new.context} instead of the one of {old.context}",
            impact=f"if that is another cluster, {impact_on_all(before)}",
            fix="if the context was only renamed, set cluster.clusterId first; else write a second stack file",
        )


def _file_removed(before: Side) -> Danger:
    return Danger(
        code=DangerCode.STACK_FILE_REMOVED,
        severity=Severity.WARNING,
        subjects=(before.stack,),
        what=f"removes the file of stack {before.stack}; what it created stays",
        impact="everything" if before.state is None else impact_on_all(before.state),
        fix="run pulumi destroy while the file is there (docs/how-to/life.md, The last day), then remove it",
    )
