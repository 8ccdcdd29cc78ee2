"""The values of the stack's cost labels, with a bound on their number: each value is a series for each of its pods."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from ebbtide.vocabulary.exporter import MOST_LABEL_VALUES, NO_VALUE, OTHER_VALUES, metric_label

_LONGEST = 63
"""Kubernetes' limit for values of labels."""


class CostLabels:
    """Remembers the first values of each label, so that a value with a series keeps it. A restart begins again."""

    def __init__(self) -> None:
        self._reported: defaultdict[str, set[str]] = defaultdict(set)

    def of(self, labels: Mapping[str, str], keys: Iterable[str]) -> Mapping[str, str]:
        """Return a pod's labels for Prometheus. A pod without a label, or with an empty value, has `NO_VALUE`."""
        return {metric_label(key): self._value(key, labels.get(key, "")[:_LONGEST]) for key in keys}

    def _value(self, key: str, value: str) -> str:
        reported = self._reported[key]
        if value and len(reported) < MOST_LABEL_VALUES:
            reported.add(value)
        return (value if value in reported else OTHER_VALUES) if value else NO_VALUE
