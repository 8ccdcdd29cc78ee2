"""Where the provider that is asked, 5.100, is older than the one that Pulumi's package wraps, of major 6.

What stands here is not asked of anybody: a wrong value in it would go unnoticed by these tests.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    type: str
    path: str
    reason: str


DIFFERENCES = (
    Difference(
        "aws_eks_cluster",
        "control_plane_scaling_config",
        "newer than 5.100; `check` takes the tiers that it knows and no other",
    ),
    Difference(
        "aws_eks_cluster",
        "deletion_protection",
        "newer than 5.100; `check` takes `true` and `false` and nothing else",
    ),
    Difference(
        "aws_eks_node_group",
        "update_config.update_strategy",
        "newer than 5.100; a constant of the component, on groups with GPUs alone",
    ),
)
EXCUSED = frozenset((each.type, each.path) for each in DIFFERENCES)

FORGOTTEN = (
    Difference(
        "aws_vpc_security_group_ingress_rule",
        "description",
        "moto forgets the description of a rule that names another group",
    ),
)
"""What a second plan would change, though the program says the same."""
