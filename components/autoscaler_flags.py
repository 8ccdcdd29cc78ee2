"""How the cluster autoscaler is told to behave, globally and per node group. Pure.

It was built to add nodes fast and to remove them with care. Here the budgets decide what may move and when, so it may
be quick: by day closed budgets keep every occupied node, whatever the threshold says, and at night they open.
"""

from collections.abc import Mapping
from datetime import timedelta

from ebbtide.settings.model import StackSettings
from ebbtide.vocabulary.labels import NodeKind

IMAGE = "registry.k8s.io/autoscaling/cluster-autoscaler"

RELEASES: Mapping[str, str] = {"1.33": "v1.33.5", "1.34": "v1.34.4", "1.35": "v1.35.2"}
"""By the Kubernetes minor whose scheduler the release simulates: the two move together."""

STOP_MARGIN = timedelta(minutes=5)
"""Past the longest job: a worker's grace period is its job plus two minutes, and must fit in with room."""

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
        # The stack's own order of groups (see `components.expander`), and among equals the least idle CPU and memory
        # after the pods are placed: the shapes differ between groups, not inside one.
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


def group_options(kind: NodeKind) -> dict[str, str]:
    """Options of one group, which the autoscaler reads from tags of the Auto Scaling group; flags are for the rest."""
    if kind is NodeKind.FIXED:
        return {}  # the careful defaults: half empty for ten minutes
    options = {
        # Keeping a node for longer than its boot takes costs more than the boot; but a job that finds no GPU waits
        # longest. Chosen by replays of public traces, on weeks that were held out: docs/defaults.md.
        "scaledownunneededtime": "3m0s" if kind is NodeKind.GPU else "1m0s",
        # Above the threshold a node is never considered, whatever the budgets say. Higher thrashes: see docs/adr/0005.
        "scaledownutilizationthreshold": "0.65",
    }
    # Of a node with GPUs these alone are weighed, and of any other they never are.
    return options | {"scaledowngpuutilizationthreshold": "0.65"} if kind is NodeKind.GPU else options


def _grace(settings: StackSettings) -> int:
    longest = max((pool.longest_job for pool in settings.workers.values()), default=timedelta())
    return int((max(longest, _DEFAULT_GRACE) + STOP_MARGIN).total_seconds())
