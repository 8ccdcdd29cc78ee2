"""Evidence and use for tests of advice on sizes, with defaults."""

from typing import Any

from ebbtide.advice.sizes.evidence import Evidence, Figure, Use
from ebbtide.advice.sizes.rules import Requests, Resource, Verdict, decide

EVIDENCE = Evidence()


def steady(amount: float) -> Figure:
    return Figure(amount, amount, amount)


def use(*, cpu: float = 500, memory: float = 1000, **changes: Any) -> Use:
    """Of a container that was seen for two weeks, and that nothing was short of."""
    values: dict[str, Any] = {"days": 14, "cpu": steady(cpu), "memory": steady(memory), "kills": 0, **changes}
    return Use(**values)


def asked(**changes: Any) -> Requests:
    values: dict[str, Any] = {"cpu": 2000, "memory": 4096, **changes}
    return Requests(**values)


def decided(resource: Resource, of: Use, given: Requests | None = None) -> Verdict:
    return decide(resource, given or asked(), of, EVIDENCE)
