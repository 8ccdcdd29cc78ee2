"""The only change that the workload controller and the closer may make to a NodePool: its disruption budgets. Pure.

The expressions are CEL, as in `components.controller.admission`.
"""

import json
from collections.abc import Sequence

from components.controller.admission import BINDINGS_STAY, unchanged
from ebbtide.vocabulary.node_pools import CLOSED, FIELD, Budgets, budgets_for
from ebbtide.vocabulary.workloads import NodePoolPolicy

_BUDGETS = f"object.{FIELD}"
_OTHERS = (
    *("metadata.annotations", "spec.template", "spec.limits", "spec.weight", "spec.replicas"),
    *("spec.disruption.consolidationPolicy", "spec.disruption.consolidateAfter"),
)
"""Source of the fields: karpenter.sh_nodepools.yaml of 1.14.1. CEL cannot list the fields of an object."""


def _literal(budgets: Budgets) -> str:
    """Return a CEL literal. The values of a CEL map must have one type unless they are `dyn`."""
    entries = [", ".join(f"'{key}': dyn({json.dumps(value)})" for key, value in budget.items()) for budget in budgets]
    return f"[{', '.join(f'{{{entry}}}' for entry in entries)}]"


IS_CLOSED = f"{_BUDGETS} == {_literal(CLOSED)}"


def budget_rules(policies: Sequence[NodePoolPolicy]) -> dict[str, str]:
    drains = sorted({0, *(policy.drains for policy in policies)})
    values = ", ".join(_literal(budgets_for(number)) for number in drains)
    return {
        **BINDINGS_STAY,
        **{unchanged(path): f"{path} must stay as it is" for path in _OTHERS},
        f"{_BUDGETS} in [{values}]": f"{FIELD} must be closed, or open as in the stack file",
    }
