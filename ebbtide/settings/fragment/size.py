"""Requests of an entire pod, including the containers of its fragment.

Kubernetes counts as follows. Containers run together and add up, and so do init containers with `restartPolicy: Always`
(native sidecars). Other init containers run before them, one after another, each together with the native sidecars that
started earlier. A pod requests the larger of both sums.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from ebbtide.settings.file.problems import value_at
from ebbtide.settings.fragment.values import entries_of
from ebbtide.text.quantities import CPU_UNITS, MEBIBYTE, MEMORY_UNITS, cpu_text, memory_text, read_quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSize:
    """The requests of one pod, which the scheduler reserves: millicores, MiB, GPUs.

    Limits are not counted, since they reserve nothing. Disk space is reserved, but has no price: a caution names pods
    whose node's disk cannot be large enough (`ebbtide.settings.checks.cautions`).
    """

    cpu: int
    memory: int
    gpu: int

    def __str__(self) -> str:
        parts = [f"{cpu_text(self.cpu)} CPU"] if self.cpu else []
        parts += [memory_text(self.memory)] if self.memory else []
        return ", ".join(parts) + (f" and {self.gpu} GPU" if self.gpu else "")


def total_size(main: PodSize, fragment: object) -> PodSize:
    """Return the pod's size. `main` is from the short keys; a fragment sets no requests for the main container."""
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
    """A limit without a request is also the request. Fragments have no GPUs, which belong to the main container."""
    amounts = [_amount(container, "cpu", CPU_UNITS), _amount(container, "memory", MEMORY_UNITS) / MEBIBYTE]
    cpu, memory = (int(amount.to_integral_value(ROUND_CEILING)) for amount in amounts)
    return PodSize(cpu=cpu, memory=memory, gpu=0)


def _amount(container: Mapping[str, object], resource: str, units: Mapping[str, Decimal | int]) -> Decimal:
    amounts = (value_at(container, ("resources", kind, resource)) for kind in ("requests", "limits"))
    return next((amount for value in amounts if (amount := read_quantity(value, units)) is not None), Decimal(0))


def _sum(first: PodSize, second: PodSize) -> PodSize:
    return PodSize(cpu=first.cpu + second.cpu, memory=first.memory + second.memory, gpu=first.gpu + second.gpu)


def _larger(first: PodSize, second: PodSize) -> PodSize:
    """Return the maximum of each resource, as Kubernetes does."""
    return PodSize(
        cpu=max(first.cpu, second.cpu), memory=max(first.memory, second.memory), gpu=max(first.gpu, second.gpu)
    )
