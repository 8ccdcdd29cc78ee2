"""An operator's holds on a pool, a budget, a workload or a Ray cluster, as annotations.

An annotation can be set while the controller is down, and is visible to everybody.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from controllers.adapters.kube_api import ApiError, KubeApi
from ebbtide.operate.api import MANAGER, Target, find
from ebbtide.operate.objects import annotations_of
from ebbtide.operate.sleepers import KIND as SLEEPER
from ebbtide.text.one_line import collapsed
from ebbtide.vocabulary.labels import APPLY_UNTIL, KEEP_UNTIL, PAUSED, SLEEP_UNTIL, WAKE_UNTIL

_HOLDS = (PAUSED, KEEP_UNTIL)
_HOLDS_OF = {"ray": (*_HOLDS, WAKE_UNTIL, APPLY_UNTIL), SLEEPER: (*_HOLDS, WAKE_UNTIL, SLEEP_UNTIL)}


@dataclass(frozen=True, slots=True)
class HoldResult:
    """Outcome for one object."""

    target: Target
    done: bool
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.target}: {self.detail}" if self.detail else str(self.target)


def annotate(api: KubeApi, targets: Sequence[Target], values: Mapping[str, str | None]) -> Iterator[HoldResult]:
    """Set annotations, or remove those whose value is None; one object's failure does not stop the others."""
    for target in targets:
        try:
            api.patch(target.path, {"metadata": {"annotations": dict(values)}}, fieldManager=MANAGER)
        except ApiError as error:
            yield HoldResult(target, done=False, detail=f"NOT done: {collapsed(error)}")
        else:
            yield HoldResult(target, done=True)


def resume(api: KubeApi, targets: Sequence[Target]) -> Iterator[HoldResult]:
    """Remove an operator's holds."""
    for target in targets:
        yield from annotate(api, [target], dict.fromkeys(_annotations_for(target)))


def held(api: KubeApi, targets: Sequence[Target]) -> list[Target]:
    """Return the targets that an operator holds. Raises `ApiError`."""
    return [
        target
        for target in targets
        if (item := find(api, target.path)) and {*_annotations_for(target)} & annotations_of(item).keys()
    ]


def _annotations_for(target: Target) -> Sequence[str]:
    return _HOLDS_OF.get(target.kind, _HOLDS)
