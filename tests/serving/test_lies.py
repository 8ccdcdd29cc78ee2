"""A forecast whose history lies: a real Prometheus with the rendered rules, KEDA with the rendered trigger, and HPAs.

Whatever was counted, there are never fewer pods than the written floor and never more than `max`. The days are written
as blocks, for nobody lived through them; the load asks for one pod throughout.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from controllers.adapters.kube_api import Json
from ebbtide.monitoring.recorded import Recorded
from tests.builders.control_plane import eventually
from tests.serving.support.history import Samples, remembering, write_blocks
from tests.serving.support.monitored import monitored
from tests.serving.support.site import Serving
from tests.serving.support.stack import objects_of, service
from tests.serving.test_forecast import LOAD
from tests.serving.test_parts import ECHO

pytestmark = pytest.mark.serving

FLOOR, USUAL, MOST, TARGET = 2, 3, 4, 3  # pods, and requests in flight for each
DAYS = 9
HOUR, DAY = timedelta(hours=1), timedelta(days=1)

Told = Callable[[timedelta, float], float | None]
"""From how long ago and what was there, to what was counted."""


def a_day_missing(ago: timedelta, there: float) -> float | None:
    return None if 2 * DAY <= ago < 3 * DAY else there


def counted_twice(_: timedelta, there: float) -> float | None:
    return 2 * there


def starts_anew(ago: timedelta, there: float) -> float | None:
    """As a counter does that was reset: nothing for ten minutes, now and a day ago."""
    return 0.0 if ago % DAY < HOUR / 6 and ago < 2 * DAY else there


def out_of_all_measure(ago: timedelta, there: float) -> float | None:
    return 1e9 if ago < timedelta(minutes=3) else there


def silent(_: timedelta, __: float) -> float | None:
    return None


LIES: Mapping[str, tuple[Told, int]] = {
    "day-missing": (a_day_missing, USUAL),
    "counted-twice": (counted_twice, MOST),
    "starts-anew": (starts_anew, USUAL),
    "beyond-measure": (out_of_all_measure, MOST),
    "clock-jumped": (lambda _, there: there, USUAL),  # below: the trend alone is right
    "silent": (silent, FLOOR),
}
JUMPED_AGO, JUMP = DAY, 2 * HOUR
"""A clock was so late until then."""


def name(lie: str) -> str:
    return f"lie-{lie}"


def samples(lie: str, now: datetime) -> Samples:
    """Each minute; at this time of day it is busy for two hours, of which one has gone."""
    told, _ = LIES[lie]
    for minute in range(DAYS * 24 * 60, 0, -1):
        ago = timedelta(minutes=minute)
        late = JUMP if lie == "clock-jumped" and ago > JUMPED_AGO else timedelta()
        since = (HOUR - ago - late) % DAY
        value = told(ago, USUAL * TARGET - 1.0 if since < 2 * HOUR else 1.0)
        if value is not None:
            yield (now - ago).timestamp(), value


def scaled(objects: list[Json]) -> Iterator[Json]:
    """The rendered ScaledObjects with the written floor, a load of one pod, and no waiting."""
    at_once = {"stabilizationWindowSeconds": 0}
    for one in objects:
        if one["kind"] == "ScaledObject":
            of_load, _ = one["spec"]["triggers"]
            of_load["metadata"]["query"] = LOAD
            autoscaler = one["spec"]["advanced"]["horizontalPodAutoscalerConfig"]
            autoscaler["behavior"] = {"scaleUp": at_once, "scaleDown": at_once}
            one["spec"] |= {"minReplicaCount": FLOOR, "pollingInterval": 1}
            yield one


def test_whatever_was_counted_the_pods_stay_between_the_floor_and_max(serving: Serving, tmp_path: Path) -> None:
    scale = f"scale: {{ metrics: {{ inFlight: {TARGET} }}, min: 1, max: {MOST}, floor: forecast }}"
    services = [service(name(lie), "startsWithin: 15s", scale) for lie in LIES]
    now = datetime.now(UTC)
    series = {Recorded.IN_FLIGHT.of("acme", service=name(lie)): list(samples(lie, now)) for lie in LIES}
    data = write_blocks(tmp_path, {name: some for name, some in series.items() if some})
    with ExitStack() as stack:
        stack.enter_context(remembering(serving, data))
        stack.enter_context(monitored(serving, *services, at_once=True))
        pods = [one for lie in LIES for one in serving.deployment(name(lie), [sys.executable, str(ECHO)])]
        its = [*scaled(objects_of(services))]
        assert len(its) == len(LIES)
        serving.apply(*pods, *its)
        stack.callback(serving.delete, *its, *pods)
        seen: dict[str, set[int]] = {lie: set() for lie in LIES}

        def as_they_should() -> bool:
            found = {lie: serving.replicas(name(lie)) for lie in LIES}
            for lie, number in found.items():
                seen[lie].add(number)
            return found == {lie: pods for lie, (_, pods) in LIES.items()}

        eventually(as_they_should, what=f"the pods of {LIES.keys()}", patience=90)
        assert {lie: some for lie, some in seen.items() if max(some) > MOST} == {}
        assert all(min(some - {1}) >= FLOOR for some in seen.values()), "from the one that a Deployment begins with"
