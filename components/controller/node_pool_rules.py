"""The change of a NodePool that the workload controller and the closer may make: its disruption budgets. Pure.

The expressions are CEL, as in `components.controller.admission`.
"""

import json
from collections.abc import Sequence

from components.controller.admission import BINDINGS_STAY, unchanged
from ebbtide.vocabulary.node_pools import CLOSED, FIELD, budgets_for
from ebbtide.vocabulary.workloads import NodePoolPolicy

_BUDGETS = f"object.{FIELD}"
_OTHERS = (
    *("metadata.annotations", "spec.template", "spec.limits", "spec.weight", "spec.replicas"),
    *("spec.disruption.consolidationPolicy", "spec.disruption.consolidateAfter"),
)
"""Source of the fields: karpenter.sh_nodepools.yaml of 1.14.1. CEL cannot list the fields of an object."""

IS_CLOSED = f"{_BUDGETS} == {json.dumps(CLOSED)}"


def budget_rules(policies: Sequence[NodePoolPolicy]) -> dict[str, str]:
    values = [CLOSED, *(budgets_for(drains) for drains in sorted({policy.drains for policy in policies}))]
    return {
        **BINDINGS_STAY,
        **{unchanged(path): f"{path} must stay as it is" for path in _OTHERS},
        f"{_BUDGETS} in {json.dumps(values)}": f"{FIELD} must be closed, or open as in the stack file",
    }
