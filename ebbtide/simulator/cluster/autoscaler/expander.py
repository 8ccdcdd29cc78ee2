"""Which group grows when several could help; names joined by commas are tried in turn, and what still ties is drawn."""

import random
from collections.abc import Callable, Mapping, Sequence

from ebbtide.simulator.cluster.autoscaler.estimator import Option
from ebbtide.simulator.cluster.model import WorkloadModel

Workloads = Mapping[str, WorkloadModel]
Filter = Callable[[Sequence[Option], Workloads], list[Option]]


class Expander:
    def __init__(self, names: str, rng: random.Random) -> None:
        unknown = [name for name in names.split(",") if name not in EXPANDERS]
        if unknown:
            raise ValueError(f"expander: wanted one of {', '.join(EXPANDERS)}, found {unknown[0]!r}")
        self._filters = [EXPANDERS[name] for name in names.split(",")]
        self._rng = rng

    def best(self, options: Sequence[Option], workloads: Workloads) -> Option:
        left = list(options)
        for narrow in self._filters:
            left = narrow(left, workloads)
        return left[0] if len(left) == 1 else self._rng.choice(left)


def _least_waste(options: Sequence[Option], workloads: Workloads) -> list[Option]:
    """The sum of the unused shares of CPU and memory on the new nodes; GPUs do not count, as in the real one."""

    def waste(option: Option) -> float:
        cpu = sum(workloads[name].cpu_m * count for name, count in option.helped.items())
        memory = sum(workloads[name].memory_mib * count for name, count in option.helped.items())
        all_cpu, all_memory = option.nodes * option.group.cpu_m, option.nodes * option.group.memory_mib
        return (all_cpu - cpu) / all_cpu + (all_memory - memory) / all_memory

    return _lowest(options, waste)


def _lowest(options: Sequence[Option], score: Callable[[Option], float]) -> list[Option]:
    scores = [score(option) for option in options]
    return [option for option, value in zip(options, scores, strict=True) if value == min(scores)]


EXPANDERS: Mapping[str, Filter] = {
    "least-waste": _least_waste,
    "most-pods": lambda options, _: _lowest(options, lambda option: -sum(option.helped.values())),
    "least-nodes": lambda options, _: _lowest(options, lambda option: option.nodes),
    "priority": lambda options, _: _lowest(options, lambda option: -option.group.priority),
    "random": lambda options, _: list(options),
}
