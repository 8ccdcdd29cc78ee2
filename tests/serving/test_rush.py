"""A rush that is known beforehand: the same step of load on a service without a floor, and with one of each kind.

From 1.5 to 10 requests a second at a full minute. A server does two at a time, half a second each, and loads for 30 s.

- *calendar*: an event of the stack file. The workload controller runs as a pod, as rendered, with its own account.
- *forecast*: the rendered rules on a Prometheus that remembers eight days with a rush at this time of day. The days are
  written as blocks: nobody lived through them. KEDA and its trigger are the rendered ones.

The stack file says that a node takes 15 s and a pod 45 s, so a floor stands a minute before the rush.
"""

import asyncio
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from controllers.adapters.kube_api import Json
from ebbtide.demo.load import LoadAnswers, LoadStage, offer
from ebbtide.demo.model_server import ModelServer
from ebbtide.monitoring.recorded import Recorded
from ebbtide.vocabulary.labels import WORKLOADS
from tests.serving.support.history import Samples, remembering, write_blocks
from tests.serving.support.monitored import monitored
from tests.serving.support.site import Serving
from tests.serving.support.stack import load_on, rendered, served, service
from tests.serving.support.steps import Measured, Watch

pytestmark = [pytest.mark.serving, pytest.mark.long, pytest.mark.timeout(900)]

SERVER = ModelServer(port=0, service=0.5, concurrency=2, loading=30)
QUIET, BUSY, LASTS = 1.5, 10.0, 75.0  # requests a second, and seconds
NONE, CALENDAR, FORECAST = "none", "calendar", "forecast"
FLOOR, MOST, TARGET = 8, 12, 1.5
AROUND = "ebbtide:controller: { nodeStartup: 15s }\n"
ZONE = ZoneInfo("Europe/Berlin")  # of the shortest stack file
SETTLES = timedelta(seconds=130)  # to come up, and to be seen in quiet
DAYS = 8


def name(kind: str) -> str:
    return f"rush-{kind}"


def files(rush: datetime) -> dict[str, str]:
    event = f'events: [{{ at: "{rush.astimezone(ZONE):%Y-%m-%dT%H:%M}", for: 1h, min: {FLOOR} }}]'
    floors = {NONE: "", CALENDAR: f", floor: calendar, {event}", FORECAST: ", floor: forecast"}
    return {
        kind: service(
            name(kind),
            "longestRequest: 2m",
            "startsWithin: 45s",
            f"scale: {{ metrics: {{ inFlight: {TARGET} }}, min: 1, max: {MOST}{floor} }}",
        )
        for kind, floor in floors.items()
    }


def in_flight_of_days(rush: datetime, now: datetime) -> Samples:
    """Each minute: next to nothing, and for an hour as much as the floor's pods take, with some to spare."""
    for minute in range(DAYS * 24 * 60 + 120, 0, -1):
        at = now - timedelta(minutes=minute)
        since = (at - rush) % timedelta(days=1)
        yield at.timestamp(), (FLOOR - 0.4) * TARGET if since < timedelta(hours=1) else 0.7


def next_minute(after: timedelta) -> datetime:
    at = datetime.now(UTC) + after
    return at.replace(second=0, microsecond=0) + timedelta(minutes=1)


@contextmanager
def workload_controller(serving: Serving, services: Mapping[str, str]) -> Generator[None]:
    """With the rights and the admission policies that are rendered for it."""
    own = [one for one in rendered([*services.values()], AROUND) if _is_its(one)]
    serving.apply(*own)
    try:
        serving.pods(WORKLOADS, sum(one["spec"]["replicas"] for one in own if one["kind"] == "Deployment"))
        yield
    finally:
        serving.delete(*reversed(own))


def _is_its(one: Json) -> bool:
    return WORKLOADS in one["metadata"]["name"] or one["metadata"]["name"] == "ebbtide-scaledobjects"


@pytest.fixture(scope="module")
def measured(serving: Serving, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Measured]]:
    """All three at once."""
    rush = next_minute(SETTLES)
    services = files(rush)
    folder = tmp_path_factory.mktemp("history")
    series = Recorded.IN_FLIGHT.of("acme", service=name(FORECAST))
    data = write_blocks(folder, {series: in_flight_of_days(rush, datetime.now(UTC))})
    with (
        remembering(serving, data),
        monitored(serving, *services.values(), around=AROUND),
        serving.hpa_every(15),
        workload_controller(serving, services),
    ):
        yield _offered(serving, services, rush)


def _offered(serving: Serving, services: Mapping[str, str], rush: datetime) -> Mapping[str, Measured]:
    watches = {kind: Watch(serving, name(kind)) for kind in services}
    with ExitStack() as stack:
        # Of the others a floor may stand already.
        its = served(
            serving, *services.values(), replicas={name(NONE): 1}, server=SERVER, autoscaled=True, around=AROUND
        )
        stack.enter_context(its)
        for watch in watches.values():
            stack.enter_context(watch.looking())
        quiet = (rush - datetime.now(UTC)).total_seconds()
        assert quiet > 20, "the site took too long to come up"
        stretches = [LoadStage(seconds=quiet, rate=QUIET), LoadStage(seconds=LASTS, rate=BUSY)]

        async def all_of_them() -> list[LoadAnswers]:
            return await asyncio.gather(
                *(offer(load_on(serving, name(kind), stretches, timeout=150)) for kind in services)
            )

        answers = dict(zip(services, asyncio.run(all_of_them()), strict=True))
    found = {
        kind: Measured(
            kind=name(kind),
            metrics=f"inFlight: {TARGET}",
            answers=answers[kind],
            seen=watches[kind].seen,
            step_at=quiet,
            busy=LASTS,
            enough=FLOOR,
        )
        for kind in services
    }
    for one in found.values():
        one.keep()
    return found


def times_slower(it: Measured) -> float:
    """p95 in the rush, against that of the quiet before it."""
    return it.in_busy_phase.quantile(0.95) / it.in_quiet_phase.quantile(0.95)


@pytest.mark.parametrize("kind", [CALENDAR, FORECAST])
def test_with_a_floor_the_rush_is_as_quick_as_the_quiet(kind: str, measured: Mapping[str, Measured]) -> None:
    it = measured[kind]

    assert it.ready_at_step >= FLOOR
    assert (it.answers.lost, it.answers.reasons) == (0, {})
    assert times_slower(it) <= 1.5


def test_without_one_new_pods_are_late(measured: Mapping[str, Measured]) -> None:
    it = measured[NONE]

    assert it.ready_at_step < FLOOR
    assert times_slower(it) > 5
