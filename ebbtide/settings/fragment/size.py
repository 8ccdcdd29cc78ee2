"""What a whole pod asks for once a fragment has given it further containers.

Kubernetes counts so: containers run beside each other and add up, and so do init containers with `restartPolicy:
Always`, which stay (native sidecars). Other init containers run one after the other beforehand, each beside the native
sidecars that were started before it. A pod needs whichever is more.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from ebbtide.settings.file.problems import value_at
from ebbtide.settings.fragment.values import entries_of
from ebbtide.units.quantities import CPU_UNITS, MEBIBYTE, MEMORY_UNITS, cpu_text, memory_text, read_quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSize:
    """What one pod asks for, and so what the scheduler reserves: millicores, MiB, GPUs.

    Limits are not counted, since nobody reserves them; nor is room on the node's disk, which is reserved and which no
    price table knows: a caution names a pod whose disk cannot be large enough (`ebbtide.settings.checks.cautions`).
    """

    cpu: int
    memory: int
    gpu: int

    def __str__(self) -> str:
        parts = [f"{cpu_text(self.cpu)} CPU"] if self.cpu else []
        parts += [memory_text(self.memory)] if self.memory else []
        return ", ".join(parts) + (f" and {self.gpu} GPU" if self.gpu else "")


def whole_size(main: PodSize, fragment: object) -> PodSize:
    """`main` is what the short keys ask for. What a fragment says of the main container has no requests."""
    together = main
    for _, container in entries_of(fragment, "containers"):
        together = _sum(together, _request(container))
    staying, most = PodSize(cpu=0, memory=0, gpu=0), PodSize(cpu=0, memory=0, gpu=0)
    for _, container in entries_of(fragment, "initContainers"):
        if container.get("restartPolicy") == "Always":
            staying = _sum(staying, _request(container))
        else:
            most = _larger(most, _sum(staying, _request(container)))
    return _larger(_sum(together, staying), most)


def _request(container: Mapping[str, object]) -> PodSize:
    """A limit without a request is the request as well. A fragment has no GPUs: those are the main container's."""
    amounts = [_amount(container, "cpu", CPU_UNITS), _amount(container, "memory", MEMORY_UNITS) / MEBIBYTE]
    cpu, memory = (int(amount.to_integral_value(ROUND_CEILING)) for amount in amounts)
    return PodSize(cpu=cpu, memory=memory, gpu=0)


def _amount(container: Mapping[str, object], resource: str, units: Mapping[str, Decimal | int]) -> Decimal:
    amounts = (value_at(container, ("resources", kind, resource)) for kind in ("requests", "limits"))
    return next((amount for value in amounts if (amount := read_quantity(value, units)) is not None), Decimal(0))


def _sum(first: PodSize, second: PodSize) -> PodSize:
    return PodSize(cpu=first.cpu + second.cpu, memory=first.memory + second.memory, gpu=first.gpu + second.gpu)


def _larger(first: PodSize, second: PodSize) -> PodSize:
    """Resource by resource, as Kubernetes does it."""
    return PodSize(
        cpu=max(first.cpu, second.cpu), memory=max(first.memory, second.memory), gpu=max(first.gpu, second.gpu)
    )
