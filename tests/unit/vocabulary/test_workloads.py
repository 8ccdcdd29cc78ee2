"""The workload controller's document, and the annotation for sleep."""

import json
from datetime import date, timedelta
from typing import Any

import pytest

from ebbtide.vocabulary.documents import UnreadableConfig, dump, load
from ebbtide.vocabulary.labels import SLEEP
from ebbtide.vocabulary.workloads import (
    FloorPolicy,
    PlannedEvent,
    PlannedNight,
    RayPolicy,
    Sleep,
    SleepWhen,
    Wake,
    WorkloadsConfig,
    dump_sleep,
    sleep_of,
)
from tests.builders.controllers import OFFICE

FLOW = RayPolicy(name="flow", namespace="ebbtide-ray-flow", head="http://flow-head-svc:8265", pools=("preprocess",))


SALE = PlannedEvent(day=date(2026, 11, 27), at=9 * 60, lasting=timedelta(hours=6), pods=8)
EMBEDDER = FloorPolicy(
    name="embedder",
    namespace="ebbtide",
    keda=True,
    least=2,
    most=12,
    lead=timedelta(minutes=7),
    open=4,
    events=(SALE,),
    overnight=(PlannedNight(at=22 * 60, lasting=timedelta(hours=2), pods=6),),
)


def document(**changes: Any) -> str:
    config = WorkloadsConfig(namespace="ebbtide", hours=OFFICE, ray=(FLOW,))
    return json.dumps({**json.loads(dump(config)), **changes})


def test_a_document_is_read_as_it_was_written_and_may_lack_what_has_a_default() -> None:
    config = WorkloadsConfig(namespace="ebbtide", lease="other", hours=OFFICE, ray=(FLOW,), pool_namespace="workers")

    assert load(WorkloadsConfig, dump(config)) == config
    with_floors = WorkloadsConfig(namespace="ebbtide", hours=OFFICE, floors=(EMBEDDER,))
    assert load(WorkloadsConfig, dump(with_floors)) == with_floors
    short = {key: value for key, value in json.loads(document()).items() if key in ("namespace", "hours")}
    assert load(WorkloadsConfig, json.dumps(short)) == WorkloadsConfig(namespace="ebbtide", hours=OFFICE)


def test_its_keys_are_in_camel_case() -> None:
    (ray,) = json.loads(document())["ray"]

    assert ray == {
        "name": "flow",
        "namespace": "ebbtide-ray-flow",
        "head": "http://flow-head-svc:8265",
        "tokenFile": None,
        "pools": ["preprocess"],
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        document(namespace=3),
        document(ray=[{"name": "flow"}]),
        document(ray=json.loads(document())["ray"] * 2),
        dump(WorkloadsConfig(namespace="ebbtide", hours=OFFICE, floors=(EMBEDDER, EMBEDDER))),
        document(floors=[{"name": "embedder"}]),
        document(hours={"timezone": "Mars/Base", "week": []}),
    ],
)
def test_what_cannot_be_carried_out_is_refused(text: str) -> None:
    with pytest.raises(UnreadableConfig):
        load(WorkloadsConfig, text)


def test_a_workload_without_the_annotation_never_sleeps() -> None:
    assert sleep_of({}) == Sleep(when=SleepWhen.NEVER)


def test_how_it_sleeps_is_read_as_it_was_written() -> None:
    sleep = Sleep(when=SleepWhen.OUTSIDE_HOURS, after=timedelta(minutes=5), wake=frozenset(Wake))

    assert sleep_of({SLEEP: dump_sleep(sleep)}) == sleep
    assert json.loads(dump_sleep(sleep)) == {
        "when": "outsideBusinessHours",
        "afterSeconds": 300,
        "wake": ["businessHours", "manual", "queue"],
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{}",
        '{"when": "sometimes"}',
        '{"when": "idle", "afterSeconds": -1}',
        '{"when": "idle", "afterSeconds": true}',
        '{"when": "idle", "afterSeconds": NaN}',
        '{"when": "idle", "afterSeconds": 1e300}',
        '{"when": "idle", "wake": ["alarm"]}',
        '{"when": "idle", "wake": 3}',
    ],
)
def test_what_cannot_be_read_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="wanted for example"):
        sleep_of({SLEEP: text})
