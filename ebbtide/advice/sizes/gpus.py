"""What was seen of a container's GPUs. The count stays as it is: a program that was given four GPUs asks for four."""

import math
from collections.abc import Iterator, Mapping

from ebbtide.advice.sizes.containers import Container
from ebbtide.advice.sizes.evidence import Evidence, Use
from ebbtide.advice.sizes.rules import WORTH_LOWERING, Resource
from ebbtide.settings.file.problems import value_at
from ebbtide.settings.patch import Change
from ebbtide.units.quantities import memory_text

_STEP = 1024  # MiB


def gpu_lines(it: Container, use: Use) -> Iterator[str]:
    """What to look at, one line each; none for a pod without GPUs, or that never ran."""
    gpu = it.pod.gpu
    if not gpu.count or not use.days:
        return
    if use.gpu_busy is None and use.gpu_memory is None:
        yield f"{it.path}.gpu stays {gpu.count}: nothing is recorded of GPUs"
        return
    seen = [
        *([] if use.gpu_busy is None else [f"{use.gpu_busy.whole:.0f} % busy at most for 95 % of the time"]),
        *([] if use.gpu_memory is None else [f"{Resource.MEMORY.seen_text(use.gpu_memory.whole)} of its memory used"]),
    ]
    yield f"{it.path}.gpu stays {gpu.count}: the busiest was {', '.join(seen)}"
    if use.gpus_used is not None and use.gpus_used < gpu.count:
        yield f"{it.path}.gpu: only {use.gpus_used} of {gpu.count} GPUs of a pod were ever busy: do fewer suffice?"


def gpu_change(
    config: Mapping[str, object], it: Container, use: Use, evidence: Evidence, most: int | None
) -> Change | None:
    """Of `gpu.memory`, which says what a GPU must have at least; `most`: what those that it ran on have."""
    now = it.pod.gpu.memory
    if now is None or use.gpu_memory is None or use.days < evidence.least:
        return None
    seen = use.gpu_memory.whole
    to = math.ceil(seen * (1 + it.asked.margin) / _STEP) * _STEP
    if most is not None:
        to = min(to, max(most, math.ceil(seen)))
    if seen <= now and to > now * (1 - WORTH_LOWERING):
        return None
    at = (*it.at, "gpu", "memory")
    before = value_at(config, at)
    if before is None:  # a service has it for all of its variants
        return None
    reason = f"{Resource.MEMORY.seen_text(seen)} of a GPU's memory used at most; margin {it.asked.margin * 100:.0f} %"
    return Change(at=at, before=before, after=memory_text(to), reason=reason)
