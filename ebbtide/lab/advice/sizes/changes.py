"""Changes of the stack file that the verdicts need, and recorded use of GPUs.

The count of GPUs is never changed: a program written for four GPUs needs four.
"""

import math
from collections.abc import Iterator, Mapping
from typing import cast

from ebbtide.lab.advice.sizes.containers import Container
from ebbtide.lab.advice.sizes.evidence import ContainerUsage, Evidence
from ebbtide.lab.advice.sizes.rules import WORTH_LOWERING, ResourceName, SizeVerdict, rounded
from ebbtide.settings.file.keys import SERVICES, VARIANTS
from ebbtide.settings.file.problems import Location, value_at
from ebbtide.settings.patch import Change
from ebbtide.text.quantities import memory_text


def changes_of_container(
    config: Mapping[str, object], container: Container, verdicts: Mapping[ResourceName, SizeVerdict]
) -> Iterator[Change]:
    """Yield the changes of a container; `config` is the file's content below `config:`."""
    for resource, verdict in verdicts.items():
        if not verdict.changes:
            continue
        yield _change(config, container.at, (resource.value,), written(resource, verdict.to), verdict.reason)
    yield from _limits(config, container, verdicts)


def _limits(
    config: Mapping[str, object], container: Container, verdicts: Mapping[ResourceName, SizeVerdict]
) -> Iterator[Change]:
    """Raise a limit that is below the raised request, or whose shortage is the reason for raising the request."""
    for resource, verdict in verdicts.items():
        limit = container.pod.limits.cpu if resource is ResourceName.CPU else container.pod.limits.memory
        if limit is None or verdict.to <= verdict.now:
            continue
        raised = max(limit, verdict.to)
        if verdict.short:
            raised = max(raised, rounded(limit * verdict.to / verdict.now, resource))
        if raised > limit:
            reason = "it goes up with the request"
            yield _change(config, container.at, ("limits", resource.value), written(resource, raised), reason)


def written(resource: ResourceName, amount: int) -> object:
    """Write the amount as people do: full cores are a number."""
    if resource is ResourceName.MEMORY:
        return memory_text(amount)
    return amount // 1000 if amount % 1000 == 0 else f"{amount}m"


def _change(config: Mapping[str, object], pod: Location, key: Location, after: object, reason: str) -> Change:
    """Change the key; a variant that inherits it from its service gets its own."""
    at = (*pod, *key)
    top = (*pod, key[0])
    service = pod[:2]
    if len(key) > 1 and _is_variant(pod) and value_at(config, top) is None:
        inherited = value_at(config, (*service, key[0]))
        if isinstance(inherited, Mapping):
            section = {**cast("Mapping[str, object]", inherited), str(key[1]): after}
            return Change(at=top, before=None, after=section, reason=reason)
    return Change(at=at, before=value_at(config, at), after=after, reason=reason)


def _is_variant(pod: Location) -> bool:
    return len(pod) > 3 and pod[0] == SERVICES and pod[2] == VARIANTS


_STEP = 1024  # MiB


def gpu_lines(container: Container, use: ContainerUsage) -> Iterator[str]:
    """Yield observations, one line each; none for a pod without GPUs, or that never ran."""
    gpu = container.pod.gpu
    if not gpu.count or not use.days:
        return
    if use.gpu_busy is None and use.gpu_memory is None:
        yield f"{container.path}.gpu stays {gpu.count}: no use of GPUs is recorded"
        return
    figures = [
        *([] if use.gpu_busy is None else [f"{use.gpu_busy.total:.0f} % busy at most for 95 % of the time"]),
        *(
            []
            if use.gpu_memory is None
            else [f"{ResourceName.MEMORY.used_text(use.gpu_memory.total)} of its memory used"]
        ),
    ]
    yield f"{container.path}.gpu stays {gpu.count}: the busiest was {', '.join(figures)}"
    if use.gpus_used is not None and use.gpus_used < gpu.count:
        used = f"only {use.gpus_used} of {gpu.count} GPUs of a pod were ever busy"
        yield f"{container.path}.gpu: {used}: do fewer suffice?"


def gpu_change(
    config: Mapping[str, object], container: Container, use: ContainerUsage, evidence: Evidence, most: int | None
) -> Change | None:
    """Change `gpu.memory`, the least memory of a GPU; `most` is the memory of the GPUs that it ran on."""
    now = container.pod.gpu.memory
    if now is None or use.gpu_memory is None or use.days < evidence.least:
        return None
    used = use.gpu_memory.total
    advised = math.ceil(used * (1 + container.requests.margin) / _STEP) * _STEP
    if most is not None:
        advised = min(advised, max(most, math.ceil(used)))
    if used <= now and advised > now * (1 - WORTH_LOWERING):
        return None
    at = (*container.at, "gpu", "memory")
    before = value_at(config, at)
    if before is None:  # a service has it for all its variants
        return None
    margin = f"margin {container.requests.margin * 100:.0f} %"
    reason = f"{ResourceName.MEMORY.used_text(used)} of a GPU's memory used at most; {margin}"
    return Change(at=at, before=before, after=memory_text(advised), reason=reason)
