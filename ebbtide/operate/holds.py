"""What an operator may ask of a pool, a budget or a Ray cluster, as annotations: written, and taken back.

An annotation works while the controller is away, and everybody can see it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from controllers.adapters.kube_api import ApiError, KubeApi
from ebbtide.operate.api import MANAGER, Target, find, one_line
from ebbtide.operate.objects import annotations_of
from ebbtide.vocabulary.labels import APPLY_UNTIL, KEEP_UNTIL, PAUSED, WAKE_UNTIL

_HOLDS = (PAUSED, KEEP_UNTIL)
_OF_RAY = (*_HOLDS, WAKE_UNTIL, APPLY_UNTIL)


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one object."""

    target: Target
    done: bool
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.target}: {self.detail}" if self.detail else str(self.target)


def annotate(api: KubeApi, targets: Sequence[Target], values: Mapping[str, str | None]) -> Iterator[Result]:
    """Set annotations, or remove those whose value is None; one object's failure does not stop the others."""
    for target in targets:
        try:
            api.patch(target.path, {"metadata": {"annotations": dict(values)}}, fieldManager=MANAGER)
        except ApiError as error:
            yield Result(target, done=False, detail=f"NOT done: {one_line(error)}")
        else:
            yield Result(target, done=True)


def resume(api: KubeApi, targets: Sequence[Target]) -> Iterator[Result]:
    """Take back whatever an operator asked of them."""
    for target in targets:
        yield from annotate(api, [target], dict.fromkeys(_asked_of(target)))


def held(api: KubeApi, targets: Sequence[Target]) -> list[Target]:
    """Those of them of which an operator asked something. Raises `ApiError`."""
    return [
        target
        for target in targets
        if (item := find(api, target.path)) and {*_asked_of(target)} & annotations_of(item).keys()
    ]


def _asked_of(target: Target) -> Sequence[str]:
    return _OF_RAY if target.kind == "ray" else _HOLDS
