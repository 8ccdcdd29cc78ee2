"""Evidence and use for tests of advice on sizes, with defaults."""

from typing import Any

from ebbtide.lab.advice.sizes.evidence import ContainerUsage, Evidence, MeasuredAmount
from ebbtide.lab.advice.sizes.rules import ContainerRequests, ResourceName, SizeVerdict, decide

EVIDENCE = Evidence()


def steady(amount: float) -> MeasuredAmount:
    return MeasuredAmount(amount, amount, amount)


def use(*, cpu: float = 500, memory: float = 1000, **changes: Any) -> ContainerUsage:
    """Of a container that was seen for two weeks, and that nothing was short of."""
    values: dict[str, Any] = {"days": 14, "cpu": steady(cpu), "memory": steady(memory), "kills": 0, **changes}
    return ContainerUsage(**values)


def asked(**changes: Any) -> ContainerRequests:
    values: dict[str, Any] = {"cpu": 2000, "memory": 4096, **changes}
    return ContainerRequests(**values)


def decided(resource: ResourceName, of: ContainerUsage, given: ContainerRequests | None = None) -> SizeVerdict:
    return decide(resource, given or asked(), of, EVIDENCE)
