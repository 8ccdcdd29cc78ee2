"""Dangers of a change that a reviewer must see before it is merged, the worst first.

Dangers judge the change from one state to another. Faults of one state are for the policies (`ebbtide.policies`),
whether they are new or not.

Two judge the later state. The ceiling of the cost (`ceiling`), since a figure that is agreed must hold after each
change; and placeholders of secrets, since no change can begin before they are replaced.

Blocking: Pulumi or AWS refuses the change, it destroys the entire stack, it kills pods that are never moved, or the
stack costs more than agreed.
Warning: the change is usually intended, and there is a right way to make it. Note: information.
"""

from collections.abc import Iterator, Sequence

from ebbtide.findings import Severity, worst_first
from ebbtide.preview.dangers.ceiling import ceiling_dangers
from ebbtide.preview.dangers.compared import Compared, impact_on_all, listed
from ebbtide.preview.dangers.conflicts import disks_out_of_reach, names_in_use
from ebbtide.preview.dangers.kinds import KINDS, danger_kind
from ebbtide.preview.dangers.losses import everything_goes, losses
from ebbtide.preview.dangers.nodes import node_dangers
from ebbtide.preview.dangers.pods import pod_dangers
from ebbtide.preview.dangers.provisioners import provisioner_dangers
from ebbtide.preview.dangers.restarts import renewed_secrets
from ebbtide.preview.document import Danger, ResourceChange
from ebbtide.preview.sides import Side
from ebbtide.recording.state import StackState
from ebbtide.text.pages import page_command

STACK_MOVES = danger_kind(
    "stack-moves", "the stack moves to another region, or to another kind of cluster", Severity.BLOCKING
)
CONTEXT_CHANGES = danger_kind("context-changes", "the stack uses the cluster of another context", Severity.WARNING)
STACK_FILE_REMOVED = danger_kind(
    "stack-file-removed", "the stack file is removed, and what it created stays", Severity.WARNING
)
SECRETS_UNSET = danger_kind("secrets-unset", "placeholders stand for values of secrets", Severity.WARNING)

__all__ = ["KINDS", "ceiling_dangers", "dangers_of"]


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
    dangers = [*_unset_secrets(after), *_change_dangers(None if before is None else before.state, after.state, changes)]
    if before is not None and not planned:
        dangers += renewed_secrets(before, after)
    return tuple(worst_first(dangers))


def _unset_secrets(after: Side) -> Iterator[Danger]:
    if after.unset_secrets:
        yield SECRETS_UNSET.danger(
            subjects=after.unset_secrets,
            text=f"has placeholders for {listed(after.unset_secrets)}, which are not set yet",
            impact="pulumi preview and pulumi up end before the first resource",
            remedy="set the values first: ebbtide check prints the commands",
        )


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
    return STACK_MOVES.danger(
        subjects=(old.stack,),
        text=f"moves the stack from {old.place} to {new.place}: everything is created again there",
        impact=impact_on_all(before),
        remedy="write a second stack file for the new place, move, then take this one down",
    )


def _context_changes(before: StackState, after: StackState) -> Iterator[Danger]:
    """Pulumi cannot distinguish a renamed context from one of another cluster; only the cluster's id can."""
    old, new = before.settings.cluster, after.settings.cluster
    if old.context != new.context and (new.cluster_id is None or new.cluster_id != old.cluster_id):
        yield CONTEXT_CHANGES.danger(
            subjects=(str(old.context), str(new.context)),
            text=f"uses the cluster of context {new.context} instead of the one of {old.context}",
            impact=f"if that is another cluster, {impact_on_all(before)}",
            remedy="if the context was only renamed, set cluster.clusterId first; else write a second stack file",
        )


def _file_removed(before: Side) -> Danger:
    return STACK_FILE_REMOVED.danger(
        subjects=(before.stack,),
        text=f"removes the file of stack {before.stack}; what it created stays",
        impact="everything" if before.state is None else impact_on_all(before.state),
        remedy=f"run pulumi destroy while the file exists ({page_command('life#the-last-day')}), then remove it",
    )
