"""The scaler's document: a written config is read unchanged, by this version and the next."""

import json
from datetime import date, timedelta

import pytest

from ebbtide.vocabulary.controller_config import BudgetPolicy, ControllerConfig, Floor, PoolPolicy, RedisEndpoint
from ebbtide.vocabulary.documents import UnreadableConfig, dump, load
from ebbtide.vocabulary.windows import BusinessHours, WeeklyInterval

SCHEMA, EXTENDED = ControllerConfig.SCHEMA, ControllerConfig.EXTENDED

POOL = PoolPolicy(
    name="train",
    namespace="ebbtide-workers",
    deployment="train",
    source="rq",
    queues=("train", "urgent"),
    jobs_per_worker=2,
    min_workers=1,
    max_workers=30,
    stabilization_window=timedelta(minutes=2),
    longest_job=timedelta(hours=12),
    safe_stop=True,
    floors=(Floor(at=120, lasting=timedelta(hours=2), workers=6),),
)
CONFIG = ControllerConfig(
    customer="acme",
    hours=BusinessHours(
        timezone="Europe/Berlin",
        week=(WeeklyInterval(0, 480, 1140), WeeklyInterval(4, 1320, 1800)),
        closed_dates=frozenset({date(2026, 12, 25), date(2026, 12, 24)}),
        holidays_known_until=date(2028, 12, 31),
    ),
    closing_guard=timedelta(minutes=15),
    node_startup=timedelta(minutes=5),
    resync=timedelta(seconds=2),
    redis=RedisEndpoint(host="redis", tls=True, username="reader", password_env="REDIS_PASSWORD"),
    pools=(POOL,),
    budgets=(BudgetPolicy(name="api", namespace="ebbtide"),),
)


def test_what_was_dumped_is_what_is_loaded() -> None:
    assert load(ControllerConfig, dump(CONFIG)) == CONFIG


def test_keys_that_the_release_before_named_otherwise_are_read_under_both_names() -> None:
    document = json.loads(dump(CONFIG))
    document["sweep"] = document.pop("resync")
    document["pools"][0]["calm"] = document["pools"][0].pop("stabilizationWindow")

    assert load(ControllerConfig, json.dumps(document)) == CONFIG


def test_the_schema_before_this_one_is_read_without_floors() -> None:
    document = json.loads(dump(CONFIG))
    document["schema"] = SCHEMA - 1
    for pool in document["pools"]:
        del pool["floors"]

    assert load(ControllerConfig, json.dumps(document)).pools[0].floors == ()


@pytest.mark.parametrize("schema", [SCHEMA - 2, EXTENDED + 1, "2", None])
def test_any_other_schema_is_refused_with_the_ones_that_are_read(schema: object) -> None:
    document = json.loads(dump(CONFIG)) | {"schema": schema}

    with pytest.raises(UnreadableConfig, match=f"reads {SCHEMA - 1}, {SCHEMA} and {EXTENDED}"):
        load(ControllerConfig, json.dumps(document))


@pytest.mark.parametrize(
    "text",
    [
        *["", "[]", "{}", "null", "7", '{"schema": 2}', '{"schema": 2, "customer": "acme", "hours": []}'],
        "[" * 100_000,
        '{"schema": ' * 100_000,
        dump(CONFIG).replace('"resync": 2.0', '"resync": 1e300'),
        dump(CONFIG).replace('"resync": 2.0', '"resync": NaN'),
    ],
    ids=lambda text: text[:12] or "empty",
)
def test_what_is_no_such_document_is_refused(text: str) -> None:
    with pytest.raises(UnreadableConfig):
        load(ControllerConfig, text)
