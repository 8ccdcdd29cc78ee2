"""The floors of the estimate are those of the controllers, at any instant of a year, clock changes included."""

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.scaler.workers.floors import floor_at as pool_floor
from controllers.workloads.floors.calendar import floor_at as service_floor
from controllers.workloads.sleep.calendar import sleep_at
from ebbtide.preview.cost.always import shares
from ebbtide.preview.cost.floors import Calendar, Floor, Raised
from ebbtide.settings.capacity.placed import placed_pods
from ebbtide.settings.capacity.process_documents import controller_config, floors_of, sleepers_of
from ebbtide.settings.load import stack_of_text
from ebbtide.settings.model import StackSettings
from ebbtide.vocabulary.controller_config import RedisEndpoint
from ebbtide.vocabulary.windows import Span
from tests.builders.settings import shortest
from tests.counts import examples
from tests.properties.test_mornings import CHANGES

YEAR = 2026
POD = 'image: "example.com/app:1", cpu: 1, memory: 2Gi'
PROBED = "ports: { http: 8080 }, port: http, probes: { readiness: { http: /, port: http } }"
SERVED = f"{POD}, {PROBED}, longestRequest: 10s"


@st.composite
def stacks(draw: st.DrawFn) -> tuple[StackSettings, datetime]:
    zone, noon = draw(st.sampled_from(CHANGES))
    clock = st.integers(0, 1439).map(lambda minutes: f"{minutes // 60:02}:{minutes % 60:02}")
    start, end = sorted(draw(st.lists(st.integers(1, 23), min_size=2, max_size=2, unique=True)))
    night = f'at: "{draw(clock)}", for: {draw(st.integers(1, 1440))}m'
    after = draw(st.sampled_from(["", ", after: 90m", ", after: 20h"]))
    event = f'{{ at: "{noon.date() + timedelta(days=draw(st.integers(-2, 2)))}T{draw(clock)}", for: 7h, min: 9 }}'
    floor = f"floor: calendar, open: {draw(st.integers(3, 6))}, overnight: [{{ {night}, min: 8 }}], events: [{event}]"
    workers, sleep = draw(st.integers(1, 4)), f"when: outsideBusinessHours{after}, overnight: [{{ {night} }}]"
    text = shortest(
        train="morning: { workers: 3, for: 45m }",
        hours=f"overnight: [{{ pool: train, {night}, workers: {workers} }}], holidays: {{ country: DE }}",
        more=f"""
        ebbtide:workloads:
          notes: {{ {POD}, category: flexible, replicas: 2, sleep: {{ {sleep} }} }}
        ebbtide:services:
          rank: {{ {SERVED}, scale: {{ metrics: {{ cpu: 70% }}, min: 2, max: 12, {floor} }} }}
        """,
    )
    text = text.replace("Europe/Berlin", zone).replace('"08:00-18:00"', f'"{start:02}:00-{end:02}:30"')
    at = draw(st.sampled_from([noon, datetime(YEAR, 1, 1, 12, tzinfo=UTC), datetime(YEAR, 7, 1, 12, tzinfo=UTC)]))
    instant = at + timedelta(minutes=draw(st.integers(0, 4000)))
    return stack_of_text(text, stack="acme", file="Pulumi.acme.yaml"), instant


def pods_at(instant: datetime, floor: Floor) -> int:
    return max([floor.least, *(raised.pods for raised in floor.raised if raised.start <= instant < raised.end)])


@given(stacks())
@settings(max_examples=examples(100), deadline=None)
def test_the_floors_of_the_estimate_are_those_of_the_controllers(case: tuple[StackSettings, datetime]) -> None:
    stack, instant = case
    calendar = Calendar(stack, YEAR)
    floors = {pod.name: calendar.floor(pod) for pod in placed_pods(stack)}
    hours = stack.business_hours.hours((YEAR,))
    config = controller_config(stack, RedisEndpoint(host="redis"), (YEAR,))
    (sleeper,), (served,), (pool,) = sleepers_of(stack), floors_of(stack), config.pools

    awake = sleep_at(instant, sleeper, hours).awake
    assert pods_at(instant, floors["notes"]) == (sleeper.replicas if awake else sleeper.asleep)
    assert pods_at(instant, floors["rank"]) == service_floor(instant, served, hours).pods
    assert pods_at(instant, floors["train"]) == pool_floor(instant, pool, config).workers


_BEGIN = datetime(YEAR, 1, 1, tzinfo=UTC)


@st.composite
def raised(draw: st.DrawFn) -> Raised:
    start = _BEGIN + timedelta(hours=draw(st.integers(-30, 110)))
    return Raised(start, start + timedelta(hours=draw(st.integers(1, 50))), draw(st.integers(0, 9)))


@given(st.lists(st.builds(Floor, st.integers(0, 5), st.lists(raised(), max_size=5).map(tuple)), max_size=3))
@settings(max_examples=examples(150), deadline=None)
def test_the_shares_are_those_of_the_hours_asked_one_by_one(floors: list[Floor]) -> None:
    asked: dict[tuple[int, ...], float] = {}
    for hour in range(100):
        numbers = tuple(pods_at(_BEGIN + timedelta(hours=hour), floor) for floor in floors)
        asked[numbers] = asked.get(numbers, 0) + 1

    counted = shares(floors, Span(_BEGIN, _BEGIN + timedelta(hours=100)))

    assert {numbers: round(share * 100, 6) for numbers, share in counted.items()} == asked
