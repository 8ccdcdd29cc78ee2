"""Usage and stacks for the tests of advice; only what a test is about has to be given."""

from collections.abc import Sequence

from ebbtide.advice.usage import Usage
from ebbtide.settings.model import StackSettings
from ebbtide.settings.node_groups import NodeGroupSettings
from ebbtide.vocabulary.labels import NodeKind
from tests.builders_simulator import a_stack

WEEK = 7 * 24


def a_usage(*, open_hours: Sequence[bool] | None = None, **nodes: Sequence[float]) -> Usage:
    """Nodes by group, hour by hour."""
    hours = len(next(iter(nodes.values())))
    return Usage(
        nodes={group: tuple(map(float, values)) for group, values in nodes.items()},
        open=tuple(open_hours or [False] * hours),
        source="made-up usage",
    )


def a_stack_with(**groups: tuple[NodeKind, str]) -> StackSettings:
    """Its groups have these kinds and instance types."""
    named = {
        name: NodeGroupSettings(kind=kind, instance_types=(type_,), min=int(kind is NodeKind.FIXED), max=9)
        for name, (kind, type_) in groups.items()
    }
    return a_stack().model_copy(update={"node_groups": named})
