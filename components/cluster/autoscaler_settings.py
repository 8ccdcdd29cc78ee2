"""The flags of the cluster autoscaler, and the priorities of node groups. Pure.

It was built to add nodes fast and to remove them with care. Here the budgets decide what may move and when, so it may
be quick: by day closed budgets keep every occupied node, whatever the threshold says, and at night they open.

When several groups would do it grows them in the stack file's order, which its priority expander reads. It knows groups
by the names of their Auto Scaling groups, which EKS makes from the node group's: `eks-`, the name, a hyphen and a UUID.
The node group's own name is a prefix of ours and 26 characters of the provider: the time to a tenth of a millisecond,
and a counter. A pattern that stopped at the prefix would match other groups too: `gpu-a-` begins the name of group
`gpu` in zone a, and of a GPU group called `a`.

A group that no pattern matches, one made by hand say, comes after all that one does. The trap: without the ConfigMap no
group is ever chosen, so it is there before the autoscaler. A change of it counts at once, without a restart.

Sources: kubernetes/autoscaler, cluster-autoscaler/expander/priority/priority.go, and its pull request 4304 for a name.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from components.aws.node_shape import name_stem
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings

IMAGE = "registry.k8s.io/autoscaling/cluster-autoscaler"

RELEASES: Mapping[str, str] = {"1.33": "v1.33.5", "1.34": "v1.34.4", "1.35": "v1.35.2", "1.36": "v1.36.1"}
"""By the Kubernetes minor whose scheduler the release simulates: the two move together."""

STOP_MARGIN = timedelta(minutes=5)
"""Past the longest stop: a worker's grace period is its job or its save plus two minutes, and must fit in with room."""

_DEFAULT_GRACE = timedelta(minutes=10)


def autoscaler_image(cluster_version: str) -> str:
    """The image for a Kubernetes minor, one of `KUBERNETES_VERSIONS`."""
    return f"{IMAGE}:{RELEASES[cluster_version]}"


def autoscaler_flags(settings: StackSettings) -> dict[str, str]:
    """The command line, by flag. Durations are as Go writes them."""
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
        "max-drain-parallelism": "5",
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
    """The ConfigMap's text, highest first. The numbers are keys of YAML and must stay unquoted."""
    patterns: dict[int, list[str]] = {}
    for name, group in groups.items():
        patterns.setdefault(group.growth_priority, []).append(pattern(name_stem(name, group.kind), zones))
    lines: list[str] = []
    for priority, matching in sorted(patterns.items(), reverse=True):
        lines += [f"{priority}:", *(f"  - '{name_pattern}'" for name_pattern in matching)]
    return "\n".join(lines) + "\n"


def pattern(stem: str, zones: Sequence[str]) -> str:
    """Matches the Auto Scaling groups of one group, in all of its zones; names hold nothing that needs escaping."""
    return f"^eks-{stem}-[{''.join(zone[-1] for zone in zones)}]-{_ADDED_BY_PROVIDER}-{_ADDED_BY_EKS}$"
