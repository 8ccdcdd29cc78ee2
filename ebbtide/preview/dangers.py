"""What a reviewer must see before a change is merged, the worst first.

Blocking is what ends in a refusal by Pulumi or AWS, takes the whole stack along, or kills what is never moved. What a
warning says is meant, as a rule, and has a right way to be done. A note is there to be seen.

What would pin flexible nodes was often there before the change: then it is a note, so that a stack with such a pod can
still be called safe to change.
"""

from collections.abc import Iterator, Sequence

from ebbtide.preview.compared import Compared
from ebbtide.preview.document import Danger, ResourceChange, Severity
from ebbtide.preview.losses import everything_goes, losses
from ebbtide.preview.node_dangers import node_dangers, version_skew
from ebbtide.preview.pins import pins_of
from ebbtide.preview.pod_dangers import lasting_pod_dangers, pod_dangers
from ebbtide.preview.pods import groups_of, in_words, pods_of
from ebbtide.preview.sides import Side

_ORDER = tuple(Severity)


def dangers_of(before: Side | None, after: Side | None, changes: Sequence[ResourceChange]) -> tuple[Danger, ...]:
    """Sorted by severity. A side that cannot be read counts as not there; of one that is not there nothing is known."""
    if after is None:
        return () if before is None else (_left_alone(before),)
    if after.settings is None:
        return ()
    known = before if before is not None and before.settings is not None else None
    found = [*_of_change(known, after, changes), *_of_later_side(known, after)]
    return tuple(sorted(found, key=lambda danger: _ORDER.index(danger.severity)))


def _of_change(before: Side | None, after: Side, changes: Sequence[ResourceChange]) -> Iterator[Danger]:
    elsewhere = tuple(_elsewhere(before, after)) if before else ()
    if elsewhere:
        yield from elsewhere
        return
    yield from _other_way_in(before or after, after)
    # Without an earlier file the engine's plan still has what it would replace: of that the later side knows most.
    seen = Compared(before=before or after, after=after, changes=changes)
    yield from losses(seen)
    if not everything_goes(changes):
        yield from node_dangers(seen)
        yield from pod_dangers(seen)


def _of_later_side(before: Side | None, after: Side) -> Iterator[Danger]:
    yield from version_skew(after.resources)
    yield from lasting_pod_dangers(pods_of(after.resources, after.settings), after.settings)
    old = {pin.what for pin in pins_of(before.resources, before.settings)} if before else set[str]()
    for pin in pins_of(after.resources, after.settings):
        severity = Severity.NOTE if pin.what in old else Severity.WARNING
        yield Danger(severity=severity, what=f"keeps nodes at night: {pin.what}", blast=pin.blast, fix=pin.fix)


def _elsewhere(before: Side, after: Side) -> Iterator[Danger]:
    """Another region, or a cluster of another making: the same names, and none of what was there."""
    if before.settings is None or after.settings is None:
        return
    old, new = before.settings, after.settings
    if (old.cluster.kind, old.region) != (new.cluster.kind, new.region):
        yield Danger(
            severity=Severity.BLOCKING,
            what=f"moves the stack from {old.place} to {new.place}: everything is built anew there",
            blast=_all_of(before),
            fix="write a second stack file for the new place, move, then take this one down",
        )


def _other_way_in(before: Side, after: Side) -> Iterator[Danger]:
    """Pulumi cannot tell a context that was renamed from one that leads to another cluster; the cluster's id can."""
    if before.settings is None or after.settings is None:
        return
    old, new = before.settings.cluster, after.settings.cluster
    if old.context != new.context and (new.cluster_id is None or new.cluster_id != old.cluster_id):
        yield Danger(
            severity=Severity.WARNING,
            what=f"goes to the cluster behind context {new.context}, no more to that behind {old.context}",
            blast=f"if that is another cluster, {_all_of(before)}",
            fix="for one that was only renamed, set cluster.clusterId first; for another, write a second stack file",
        )


def _left_alone(before: Side) -> Danger:
    return Danger(
        severity=Severity.WARNING,
        what=f"the file of stack {before.stack} goes, and what it built stays",
        blast=_all_of(before),
        fix="run pulumi destroy while the file is there (docs/life.md, The last day), then remove it",
    )


def _all_of(side: Side) -> str:
    nodes = sum(group.most for group in groups_of(side.resources).values())
    return f"everything: {f'up to {nodes} nodes; ' if nodes else ''}{in_words(pods_of(side.resources, side.settings))}"
