"""Check that node groups at their max hold all pods at their max, and one surge pod during a release.

Of an existing cluster the file knows no nodes, so nothing is said about it.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from ebbtide.provisioning_labels import Architecture, NodeKind
from ebbtide.settings.fragment.values import inside
from ebbtide.settings.model import StackSettings
from ebbtide.settings.packing import Nodes, Packing, packed
from ebbtide.settings.placement import PodSize, head_size, node_of, pod_size, suits, takes
from ebbtide.settings.sections.ray import group_name, head_name
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.vocabulary.labels import Category


class Asked(NamedTuple):
    """Pods of one size: how many stay, how many there may be, and the groups that they may come to."""

    name: str
    size: PodSize
    least: int
    most: int
    groups: Collection[str]
    arch: Architecture | None


def asked(settings: StackSettings) -> Iterator[Asked]:
    for name, workload in settings.all_workloads.items():
        groups = groups_of(workload, settings)
        yield Asked(name, pod_size(workload), workload.most, workload.most, groups, workload.arch)
    for name, pool in settings.workers.items():
        yield Asked(name, pod_size(pool), pool.min, pool.max, (pool.node_group,), pool.arch)
    for name, job in (*settings.jobs.items(), *settings.cron_jobs.items()):
        most = min(job.parallelism, job.completions)
        yield Asked(name, pod_size(job), 0, most, (job.node_group,), job.arch)
    fixed = {name: group for name, group in settings.node_groups.items() if group.kind is NodeKind.FIXED}
    for name, cluster in settings.ray.items():
        homes = [key for key, group in fixed.items() if suits(group, cluster.head)]
        yield Asked(head_name(name), head_size(cluster.head), 1, 1, homes, cluster.head.arch)
        for key, group in cluster.groups.items():
            size = pod_size(group)
            yield Asked(group_name(name, key), size, group.min, group.max, (group.node_group,), group.arch)


def groups_of(workload: WorkloadSettings, settings: StackSettings) -> Collection[str]:
    return [name for name, group in settings.node_groups.items() if takes(group, workload)]


def nodes_at_most(settings: StackSettings) -> Mapping[str, int]:
    """Return the nodes that each group needs when every pod that may run there does."""
    pods = [(it.size, it.most, it.groups) for it in asked(settings)]
    return packed(pods, _nodes(settings)).opened


def lasting_pods(settings: StackSettings) -> Packing:
    """The nodes with what does not go by itself: services at their most, and the least of what scales to zero."""
    return packed([(it.size, it.least, it.groups) for it in asked(settings)], _nodes(settings))


def mounts_alone(workload: WorkloadSettings) -> bool:
    """True if it mounts a ReadWriteOnce claim. Without `shared`, the claim of a single pod counts as one."""
    said = [volume.shared for volume in workload.volumes.values() if volume.claim is not None]
    said += [None for _, key, _ in inside(workload.pod) if key == "persistentVolumeClaim"]
    return any(workload.is_alone if shared is None else not shared for shared in said)


def one_at_a_time(workload: WorkloadSettings) -> bool:
    """True if a release must end all former pods before the next one starts."""
    return mounts_alone(workload) or (workload.is_alone and workload.category is Category.FIXED)


def room_for_next(workload: WorkloadSettings, settings: StackSettings, lasting: Packing) -> bool:
    """True if a release may start the next pod before an old one ends: a node has room, or one can be added."""
    return not settings.node_groups or lasting.has_room(pod_size(workload), groups_of(workload, settings))


def _nodes(settings: StackSettings) -> Mapping[str, Nodes]:
    return {name: Nodes(each=node_of(group), most=group.max) for name, group in settings.node_groups.items()}
