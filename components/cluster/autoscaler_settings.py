"""The flags of the cluster autoscaler, and the priorities of node groups. Pure.

By default the autoscaler adds nodes fast and removes them carefully. In Ebbtide budgets decide which pods may move and
when, so it may remove nodes fast: by day closed budgets keep every occupied node, whatever the threshold, and at night
they open.

If a pending pod fits several groups, the priority expander grows them in the stack file's order. It identifies groups
by the names of their Auto Scaling groups, which EKS derives from the node group's name: `eks-`, that name, a hyphen and
a UUID. The node group's name is Ebbtide's prefix and 26 characters from the provider: the time to a tenth of a
millisecond, and a counter. A pattern that ended at the prefix would match other groups too: the names of group `gpu` in
zone a and of a GPU group called `a` both begin with `gpu-a-`.

A group that no pattern matches, such as one created by hand, comes last. The trap: without the ConfigMap the expander
never chooses a group, so the ConfigMap is created before the autoscaler. A change of it takes effect at once, without a
restart.

Sources: kubernetes/autoscaler, cluster-autoscaler/expander/priority/priority.go, and its pull request 4304 for a name.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from components.aws.node_shape import name_stem
from ebbtide.kube.autoscaler import DELAY_AFTER_ADD, EXPANDER, UNREMOVABLE_RECHECK, USUAL_BACKOFF
from ebbtide.settings.capacity.fallbacks import first_backoff
from ebbtide.settings.capacity.shapes_of_group import parts_of
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.text.durations import go_text

IMAGE = "registry.k8s.io/autoscaling/cluster-autoscaler"

RELEASES: Mapping[str, str] = {"1.33": "v1.33.5", "1.34": "v1.34.4", "1.35": "v1.35.2", "1.36": "v1.36.1"}
"""Releases by Kubernetes minor. A release simulates the scheduler of its minor, so both change together."""

STOP_MARGIN = timedelta(minutes=5)
"""Added to the longest stop. A worker's grace period, the time of its job or save plus two minutes, must fit."""

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
        # The stack's order of groups (see `priorities`); among equals, the group with the least idle CPU and
        # memory after the pods are placed. Node shapes differ between groups, not within one.
        "expander": EXPANDER,
        # A group is one Auto Scaling group per zone: grow the zones evenly.
        "balance-similar-node-groups": "true",
        # Scratch volumes are no reason to keep a node all night; budgets protect what must stay.
        "skip-nodes-with-local-storage": "false",
        # A forgotten system pod must not hold a flexible node all night. Important ones run on fixed nodes.
        "skip-nodes-with-system-pods": "false",
        # Every node runs the same DaemonSets, so their requests say nothing about how full it is.
        "ignore-daemonsets-utilization": "true",
        # By default a node that a closed budget kept is not reconsidered for 5 minutes: lost time at closing.
        "unremovable-node-recheck-timeout": go_text(UNREMOVABLE_RECHECK),
        # One group's morning growth must not hold up another group's shrinking ...
        "scale-down-delay-type-local": "true",
        # ... nor its own for the default 10 minutes.
        "scale-down-delay-after-add": go_text(DELAY_AFTER_ADD),
        # At one node at a time, the default, a large cluster needs half the night. Budgets still limit evictions.
        "max-drain-parallelism": str(settings.cluster.parallel_drains),
        # Two pods of one budget on one node leave one after the other: the default 2 minutes is often too short.
        "max-pod-eviction-time": "5m0s",
        # If this were shorter than a job, the autoscaler would kill the worker that it drains. Default: 10 minutes.
        "max-graceful-termination-sec": str(_grace(settings)),
        # A group whose minimum was raised gets its nodes without waiting for a pod.
        "enforce-node-group-min-size": "true",
        "v": "2",
        # The fallback of a pool grows only if all groups of its spot group pause at a time.
        **_pause_after_a_failed_launch(settings),
    }


def _pause_after_a_failed_launch(settings: StackSettings) -> dict[str, str]:
    pause = first_backoff(settings)
    return {} if pause == USUAL_BACKOFF else {"initial-node-group-backoff-duration": go_text(pause)}


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
        stems = [name_stem(part, group.kind) for part in parts_of(name, group)]
        patterns.setdefault(group.growth_priority, []).extend(pattern(stem, zones) for stem in stems)
    lines: list[str] = []
    for priority, matching in sorted(patterns.items(), reverse=True):
        lines += [f"{priority}:", *(f"  - '{name_pattern}'" for name_pattern in matching)]
    return "\n".join(lines) + "\n"


def pattern(stem: str, zones: Sequence[str]) -> str:
    """Return a pattern for one managed group's Auto Scaling groups in all zones. Names need no escaping."""
    return f"^eks-{stem}-[{''.join(zone[-1] for zone in zones)}]-{_ADDED_BY_PROVIDER}-{_ADDED_BY_EKS}$"
