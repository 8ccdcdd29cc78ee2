"""Which group the autoscaler grows when several would do: the stack file's order, as its priority expander reads it.

It knows groups by the names of their Auto Scaling groups, which EKS makes from the node group's: `eks-`, the name, a
hyphen and a UUID. The node group's own name is a prefix of ours and 26 characters of the provider: the time to a tenth
of a millisecond, and a counter. A pattern that stopped at the prefix would match other groups too: `gpu-a-` begins the
name of group `gpu` in zone a, and of a GPU group called `a`.

A group that no pattern matches, one made by hand say, comes after all that one does. The trap: without the ConfigMap no
group is ever chosen, so it is there before the autoscaler. A change of it counts at once, without a restart.

Sources: kubernetes/autoscaler, cluster-autoscaler/expander/priority/priority.go, and its pull request 4304 for a name.
"""

from collections.abc import Mapping, Sequence

from components.node_shape import name_stem
from ebbtide.settings.node_groups import NodeGroupSettings

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
        lines += [f"{priority}:", *(f"  - '{each}'" for each in matching)]
    return "\n".join(lines) + "\n"


def pattern(stem: str, zones: Sequence[str]) -> str:
    """Matches the Auto Scaling groups of one group, in all of its zones; names hold nothing that needs escaping."""
    return f"^eks-{stem}-[{''.join(zones)}]-{_ADDED_BY_PROVIDER}-{_ADDED_BY_EKS}$"
