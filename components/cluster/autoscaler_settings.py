"""The flags of the cluster autoscaler, and the priorities of node groups. Pure.

By default it adds nodes fast and removes them carefully. Here the budgets decide what may move and when, so it may
remove them fast: by day closed budgets keep every occupied node, whatever the threshold, and at night they open.

If several groups fit, the priority expander grows them in the stack file's order. It identifies groups by the names of
their Auto Scaling groups, which EKS derives from the node group's: `eks-`, the name, a hyphen and a UUID. The node
group's name is Ebbtide's prefix and 26 characters of the provider: the time to a tenth of a millisecond, and a counter.
A pattern that ended at the prefix would match other groups too: `gpu-a-` begins the name of group `gpu` in zone a, and
of a GPU group called `a`.

A group that no pattern matches, such as one created by hand, comes last. The trap: without the ConfigMap no group is
ever chosen, so it is created before the autoscaler. A change takes effect at once, without a restart.

Sources: kubernetes/autoscaler, cluster-autoscaler/expander/priority/priority.go, and its pull request 4304 for a name.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from components.aws.node_shape import name_stem
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings

IMAGE = "registry.k8s.io/autoscaling/cluster-autoscaler"

RELEASES: Mapping[str, str] = {"1.33": "v1.33.5", "1.34": "v1.34.4", "1.35": "v1.35.2", "1.36": "v1.36.1"}
"""Releases by the Kubernetes minor whose scheduler they simulate; both change together."""

STOP_MARGIN = timedelta(minutes=5)
"""Added to the longest stop: a worker's grace period is its job or its save plus two minutes, and must fit."""

_DEFAULT_GRACE = timedelta(minutes=10)


def autoscaler_image(cluster_version: str) -> str:
    """Return the image for a Kubernetes minor, one of `KUBERNETES_VERSIONS`."""
    return f"{IMAGE}:{RELEASES[cluster_version]}"


def autoscaler_flags(settings: StackSettings) -> dict[str, str]:
    """Return the flags. Durations have Go's format."""
    cluster = settings.customer
    discovery = f"asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/{cluster}"
    return {
        "cloud-provider": "aws",
        "node-group-auto-discovery": discovery,
        # The stack's own order of groups (see `priorities`), and among equals the least idle CPU and
        # memory after the pods are placed: the shapes differ between groups, not inside one.
        "expander": "priority,least-waste",
        # A group is one Auto Scaling group per zone: grow the zones evenly.
        "balance-similar-node-groups": "true",
        # Scratch volumes are no reason to keep a node all night; budgets protect what must stay.
        "skip-nodes-with-local-storage": "false",
        # A forgotten system pod must not hold a flexible node all night. Those that matter run on fixed nodes.
        "skip-nodes-with-system-pods": "false",
        # Every node runs the same DaemonSets, so their requests say nothing about how full it is.
        "ignore-daemonsets-utilization": "true",
        # The default forgets a node for 5 minutes after a closed budget kept it: at closing time that is lost.
        "unremovable-node-recheck-timeout": "1m0s",
        # One group's morning growth must not hold up another group's shrinking ...
        "scale-down-delay-type-local": "true",
        # ... nor its own for the default 10 minutes.
        "scale-down-delay-after-add": "3m0s",
        # One node at a time, the default, would take a large cluster half the night. Budgets still bound the pods.
        "max-drain-parallelism": str(settings.cluster.parallel_drains),
        # Two pods of one budget on one node leave one after the other: the default 2 minutes is often too short.
        "max-pod-eviction-time": "5m0s",
        # Shorter than a running job, and the autoscaler kills what it drains: 10 minutes by default.
        "max-graceful-termination-sec": str(_grace(settings)),
        # A group whose minimum was raised gets its nodes without waiting for a pod.
        "enforce-node-group-min-size": "true",
        "v": "2",
    }


def _grace(settings: StackSettings) -> int:
    stops = [pool.stop_time for pool in settings.workers.values()]
    longest = max([*stops, *(cluster.longest_task for cluster in settings.ray.values())], default=timedelta())
    return int((max(longest, _DEFAULT_GRACE) + STOP_MARGIN).total_seconds())


CONFIG_MAP = "cluster-autoscaler-priority-expander"
KEY = "priorities"

_ADDED_BY_PROVIDER = "[0-9]{18}[0-9a-f]{8}"
_ADDED_BY_EKS = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def priorities(groups: Mapping[str, NodeGroupSettings], zones: Sequence[str]) -> str:
    """Return the ConfigMap's text, highest first. The numbers are YAML keys and must stay unquoted."""
    patterns: dict[int, list[str]] = {}
    for name, group in groups.items():
        patterns.setdefault(group.growth_priority, []).append(pattern(name_stem(name, group.kind), zones))
    lines: list[str] = []
    for priority, matching in sorted(patterns.items(), reverse=True):
        lines += [f"{priority}:", *(f"  - '{name_pattern}'" for name_pattern in matching)]
    return "\n".join(lines) + "\n"


def pattern(stem: str, zones: Sequence[str]) -> str:
    """Return a pattern of one group's Auto Scaling groups in all zones. Names need no escaping."""
    return f"^eks-{stem}-[{''.join(zone[-1] for zone in zones)}]-{_ADDED_BY_PROVIDER}-{_ADDED_BY_EKS}$"
