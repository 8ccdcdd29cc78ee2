"""Label selectors, evaluated as Kubernetes does."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet


def _is_absent(_key: str) -> bool:
    return False


def may_hold(
    labels: Mapping[str, AbstractSet[str]],
    key: str,
    operator: object,
    values: Sequence[object],
    *,
    may_exist: Callable[[str], bool] = _is_absent,
) -> bool:
    """True if an object can meet an entry of `matchExpressions`; `labels` has the possible values of its labels.

    `may_exist`: True for a key that the object may have with any value, although `labels` lacks it.
    """
    match operator:
        case "In":
            return not labels[key].isdisjoint(values) if key in labels else may_exist(key)
        case "NotIn":
            return key not in labels or not labels[key] <= set(values)
        case "Exists":
            return key in labels or may_exist(key)
        case "DoesNotExist":
            return key not in labels
        case _:  # Gt and Lt compare numbers, and no known label has a number
            return key not in labels and may_exist(key)
