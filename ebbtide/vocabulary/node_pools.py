"""The two values of a NodePool's disruption budgets that Ebbtide writes.

By day only empty nodes may be removed. In the window a limited number of nodes may be disrupted at a time. Neither
value has a schedule: Karpenter's schedules support neither time zones nor holidays.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

API = "karpenter.sh/v1"
PATH = f"/apis/{API}/nodepools"
FIELD = "spec.disruption.budgets"

Budgets: TypeAlias = Sequence[Mapping[str, Any]]


def budgets_for(drains: int) -> Budgets:
    """Return the value that allows `drains` disrupted nodes at a time. With 0 only empty nodes may be removed."""
    return [{"nodes": str(drains), "reasons": ["Underutilized", "Drifted"]}, {"nodes": "100%", "reasons": ["Empty"]}]


CLOSED = budgets_for(0)
