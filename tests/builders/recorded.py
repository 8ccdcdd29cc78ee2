"""Recordings shared by tests: what was recorded of equal settings is handed out again, and nobody changes it."""

from collections import OrderedDict

from ebbtide.recording import record as recording
from ebbtide.recording.resources import Resource
from ebbtide.settings.model import StackSettings

_KEPT = 16
"""Recordings that a process keeps: of the demo stack each is 6 MiB."""
_recordings: OrderedDict[str, tuple[Resource, ...]] = OrderedDict()


def record(settings: StackSettings) -> tuple[Resource, ...]:
    """As the product's own."""
    key = repr(settings)
    if (found := _recordings.pop(key, None)) is None:
        found = recording.record(settings)
        if len(_recordings) >= _KEPT:
            _recordings.popitem(last=False)
    _recordings[key] = found
    return found
