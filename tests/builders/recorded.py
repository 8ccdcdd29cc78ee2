"""Recordings shared by tests: what was recorded of equal settings is handed out again, and nobody changes it."""

from collections import OrderedDict

from ebbtide.recording import record as recording
from ebbtide.recording.resources import Resource
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.calendars import coming_years

_KEPT = 4
"""Recordings that a process keeps: of the demo stack each is 6 MiB."""
_recordings: OrderedDict[tuple[tuple[int, ...], str], tuple[Resource, ...]] = OrderedDict()


def record(settings: StackSettings) -> tuple[Resource, ...]:
    """As the product's own. Which holidays a stack lists follows from the year, and golden files stay in 2026."""
    key = coming_years(), repr(settings)
    if (found := _recordings.pop(key, None)) is None:
        found = recording.record(settings)
        if len(_recordings) >= _KEPT:
            _recordings.popitem(last=False)
    _recordings[key] = found
    return found
