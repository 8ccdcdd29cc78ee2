"""What a scenario file may hold: each key, what fits it, and what stands for it when it is left out."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TypeGuard

from ebbtide.lab.simulator.cluster import AutoscalerFlags
from ebbtide.lab.simulator.cluster.autoscaler.expander import EXPANDERS

MOST = 10_000
"""Of pods of one workload, or nodes of one group: more would be a slip of the pen."""
LONGEST_S = 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class ValueForm:
    """What fits a key, in words and as an example."""

    wanted: str
    example: str
    fits: Callable[[object], bool]


class _Required:
    """Stands for a default where there is none."""


REQUIRED = _Required()


@dataclass(frozen=True, slots=True)
class KeyForm:
    kind: ValueForm
    default: object = REQUIRED


def _number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


def _mapping(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, Mapping)


def _names(value: object) -> bool:
    return _list(value) and all(isinstance(name, str) for name in value)


def _texts(value: object) -> bool:
    return _mapping(value) and all(isinstance(text, str) for text in value.values())


def _taint(value: object) -> bool:
    return _mapping(value) and _texts(value) and value.keys() <= {"key", "value", "effect", "operator"}


def _taints(value: object) -> bool:
    return _list(value) and all(_taint(taint) for taint in value)


def _count_by_name(value: object) -> bool:
    return _mapping(value) and all(_whole(count) and 0 <= count <= MOST for count in value.values())


def _packing(value: object) -> bool:
    return _list(value) and all(_names(node) for node in value)


TEXT = ValueForm("a name", '"worker"', lambda value: isinstance(value, str) and value != "")
ANY_TEXT = ValueForm("text", '"worker"', lambda value: isinstance(value, str))
TEXT_OR_NULL = ValueForm("a name or null", '"flexible"', lambda value: value is None or TEXT.fits(value))
TRUTH = ValueForm("true or false", "true", lambda value: isinstance(value, bool))
TRUTH_OR_NULL = ValueForm("true, false or null", "true", lambda value: value is None or isinstance(value, bool))
SECONDS = ValueForm("seconds of 0 or more", "8", lambda value: _number(value) and 0 <= value <= LONGEST_S)
SOME_SECONDS = ValueForm("seconds above 0", "1", lambda value: _number(value) and 0.01 <= value <= LONGEST_S)
SHARE = ValueForm("a share from 0 to 1", "0.5", lambda value: _number(value) and 0 <= value <= 1)
COUNT = ValueForm(f"a whole number from 0 to {MOST}", "3", lambda value: _whole(value) and 0 <= value <= MOST)
SOME = ValueForm(f"a whole number from 1 to {MOST}", "3", lambda value: _whole(value) and 1 <= value <= MOST)
SIZE = ValueForm("a whole number above 0", "7900", lambda value: _whole(value) and 0 < value < 10**9)
SIZE_OR_NONE = ValueForm("a whole number of 0 or more", "3000", lambda value: _whole(value) and 0 <= value < 10**9)
WHOLE = ValueForm("a whole number", "10", _whole)
ALLOWED = ValueForm("a whole number of 0 or more, or null", "1", lambda value: value is None or COUNT.fits(value))
NAMES = ValueForm("a list of names", '["fixed"]', _names)
LABELS = ValueForm("a mapping of texts", '{"zone": "a"}', _texts)
TAINTS = ValueForm(
    "a list of key, value and effect", '[{"key": "gpu", "value": "true", "effect": "NoSchedule"}]', _taints
)
COUNTS = ValueForm("numbers by name", '{"worker": 0}', _count_by_name)
MAPPING = ValueForm("a mapping", "{}", _mapping)
REASONS = ValueForm("a list of texts", '["pod with local storage present: cache"]', _names)
PACKING = ValueForm("a list of the workloads on each node", '[["api", "worker"]]', _packing)
EXPANDER = ValueForm(
    f"one or more of {', '.join(sorted(EXPANDERS))}, joined by commas",
    '"least-waste"',
    lambda value: isinstance(value, str) and set(value.split(",")) <= set(EXPANDERS),
)

_BY_TYPE: dict[type, ValueForm] = {float: SECONDS, int: SOME, bool: TRUTH, str: EXPANDER}
_OTHER_FLAGS = {"utilization_threshold": SHARE, "scan_interval_s": SOME_SECONDS, "unremovable_recheck_s": SOME_SECONDS}
FLAGS: dict[str, KeyForm] = {
    flag.name: KeyForm(_OTHER_FLAGS.get(flag.name) or _BY_TYPE[type(flag.default)], flag.default)
    for flag in fields(AutoscalerFlags)
    if flag.name != "balancing_ignored_labels"
} | {"balancing_ignore_labels": KeyForm(NAMES, [])}
GROUP: dict[str, KeyForm] = {
    "name": KeyForm(TEXT),
    "min": KeyForm(COUNT, 0),
    "max": KeyForm(COUNT),
    "cpu_m": KeyForm(SIZE),
    "memory_mib": KeyForm(SIZE),
    "gpu": KeyForm(COUNT, 0),
    "max_pods": KeyForm(SOME, 110),
    "labels": KeyForm(LABELS, {}),
    "taints": KeyForm(TAINTS, []),
    "priority": KeyForm(WHOLE, 0),
}
WORKLOAD: dict[str, KeyForm] = {
    "name": KeyForm(TEXT),
    "replicas": KeyForm(COUNT),
    "cpu_m": KeyForm(SIZE_OR_NONE),
    "memory_mib": KeyForm(SIZE_OR_NONE),
    "gpu": KeyForm(COUNT, 0),
    "category": KeyForm(ANY_TEXT, "flexible"),
    "group": KeyForm(TEXT_OR_NULL, None),
    "one_per_node": KeyForm(TRUTH, default=False),
    "anti_affinity_with": KeyForm(NAMES, []),
    "pdb_max_unavailable": KeyForm(ALLOWED, None),
    "empty_dir": KeyForm(TRUTH, default=False),
    "safe_to_evict": KeyForm(TRUTH_OR_NULL, None),
    "tolerations": KeyForm(TAINTS, []),
    "grace_s": KeyForm(SECONDS, 30),
}
CHANGE: dict[str, KeyForm] = {"at_s": KeyForm(SECONDS), "scale": KeyForm(COUNTS, {}), "pdb": KeyForm(COUNTS, {})}
ROW: dict[str, KeyForm] = {"t_s": KeyForm(SECONDS), "nodes": KeyForm(COUNTS), "pods": KeyForm(MAPPING, {})}
