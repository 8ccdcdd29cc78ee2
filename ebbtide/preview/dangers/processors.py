"""Pods that come to nodes with another processor, on which an image for the old one does not start.

A group of the file takes the place of the default one of its kind (`ebbtide.settings.sections.node_groups`), so this
may happen to pods of which no line of the file changes.
"""

from collections.abc import Iterator, Sequence

from ebbtide.preview.dangers.compared import Compared, listed
from ebbtide.preview.document import Danger, DangerCode, Severity
from ebbtide.provisioning_labels import Architecture
from ebbtide.settings.model import StackSettings
from ebbtide.settings.packing import PodRequests, pod_requests
from ebbtide.settings.placement import architecture


def processor_dangers(compared: Compared) -> Iterator[Danger]:
    """What says `arch: any` has an image for both, and arm64 is written by nobody but the file."""
    before, after = compared.before.settings, compared.after.settings
    old = {it.name: it for it in pod_requests(before)}
    alike: dict[tuple[str, str], list[PodRequests]] = {}
    for new in pod_requests(after):
        had, has = _processors(before, old.get(new.name)), _processors(after, new)
        if had and set(has) - set(had) and new.arch not in (Architecture.ANY, Architecture.ARM64):
            alike.setdefault((" or ".join(had), " or ".join(has)), []).append(new)
    for (had, has), pods in alike.items():
        names = tuple(it.name for it in pods)
        left = dict.fromkeys(group for name in names for group in old[name].groups)
        gone = [group for group in left if group not in after.node_groups]
        come = dict.fromkeys(group for it in pods for group in it.groups)
        beside = f"beside {listed([*come])}"
        keep = f"name {listed(gone)} in the file {beside}" if gone else f"keep a group with the old types {beside}"
        yield Danger(
            code=DangerCode.PROCESSOR_CHANGED,
            severity=Severity.WARNING,
            subjects=names,
            what=f"moves {listed(names)} from {had} to {has} nodes, on which images for {had} alone do not start",
            impact=compared.impact(pods for pods, _ in compared.pairs if pods.name in names),
            fix=f"{keep}, or say arch of pods whose images are for {has} too",
        )


def _processors(settings: StackSettings, pods: PodRequests | None) -> Sequence[Architecture]:
    """Those of the nodes that they may come to; none where nothing is known of the nodes."""
    groups = () if pods is None else pods.groups
    return sorted({architecture(settings.node_groups[name]) for name in groups if name in settings.node_groups})
