"""The two values of a NodePool's disruption budgets that Ebbtide writes.

By day empty nodes may go and no other. In the window some nodes may be disrupted at a time. Both values are plain:
Karpenter's schedules know neither time zones nor holidays.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

API = "karpenter.sh/v1"
PATH = f"/apis/{API}/nodepools"
FIELD = "spec.disruption.budgets"

Budgets: TypeAlias = Sequence[Mapping[str, Any]]


def budgets_for(drains: int) -> Budgets:
    """Return the value that lets `drains` nodes be disrupted at a time. With 0 only empty nodes may go."""
    return [{"nodes": str(drains), "reasons": ["Underutilized", "Drifted"]}, {"nodes": "100%", "reasons": ["Empty"]}]


CLOSED = budgets_for(0)
