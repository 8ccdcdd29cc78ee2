"""The priority classes of the stack's pods. They order pending pods and preempt no other pod.

`preemptionPolicy: Never` is essential. Preemption respects budgets only on a best-effort basis, so a preempting class
would kill jobs; policy EB016 refuses such a class on nodes that workers use.
"""

from collections.abc import Iterable

import pulumi
from pulumi_kubernetes.scheduling.v1 import PriorityClass

from components.pods.rules import priority_class
from ebbtide.provisioning_labels import CUSTOMER


class Priorities(pulumi.ComponentResource):
    def __init__(
        self, name: str, values: Iterable[int], customer: str, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("ebbtide:components:Priorities", name, None, opts)
        for value in sorted(set(values)):
            PriorityClass(
                f"{name}-{value}",
                metadata={"name": priority_class(value), "labels": {CUSTOMER: customer}},
                value=value,
                preemption_policy="Never",
                global_default=False,
                description="Goes first when nodes are short; pushes no other pod out.",
                opts=pulumi.ResourceOptions(parent=self),
            )
        self.register_outputs({})
