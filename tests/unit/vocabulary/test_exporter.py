"""The exporter's document."""

import json
from datetime import UTC, date, datetime
from typing import Any

import pytest

from ebbtide.vocabulary.documents import UnreadableConfig, dump, load
from ebbtide.vocabulary.exporter import ExporterConfig, GroupMax, Price

WHOLE = ExporterConfig(
    namespace="ebbtide",
    hpa_namespaces=("ebbtide", "ebbtide-workers"),
    prices=(Price(instance_type="m7i.large", dollars_per_hour=0.1008),),
    tls_endpoints=("redis.example.com:6380", "[fd00::1]:6379"),
    timezone="America/New_York",
    holidays_until=date(2028, 12, 31),
    group_max=(GroupMax(group="flexible", nodes=8),),
)


def test_a_document_is_read_as_it_was_written_and_may_lack_what_has_a_default() -> None:
    assert load(ExporterConfig, dump(WHOLE)) == WHOLE
    assert load(ExporterConfig, '{"namespace": "ebbtide"}') == ExporterConfig(namespace="ebbtide")


def test_its_keys_are_in_camel_case() -> None:
    document = json.loads(dump(WHOLE))

    assert document.keys() == {
        *("namespace", "hpaNamespaces", "prices", "tlsEndpoints", "timezone", "holidaysUntil", "groupMax"),
    }
    assert document["prices"] == [{"instanceType": "m7i.large", "dollarsPerHour": 0.1008}]


def test_holidays_end_with_their_last_day_in_the_customers_own_zone() -> None:
    assert WHOLE.holidays_end == datetime(2029, 1, 1, 5, tzinfo=UTC)
    assert ExporterConfig(namespace="ebbtide").holidays_end is None


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"namespace": None}, "wanted str, found None"),
        ({"prices": [{"instanceType": "m7i.large"}]}, "dollarsPerHour"),
        ({"prices": [{"instanceType": "m7i.large", "dollarsPerHour": "1"}]}, "wanted float"),
        ({"groupMax": [{"group": "flexible", "nodes": "8"}]}, "wanted int"),
        ({"holidaysUntil": "soon"}, "soon"),
        ({"timezone": "Mars/Base"}, "Mars/Base"),
        ({"tlsEndpoints": ["redis"]}, "found 'redis', wanted host:port"),
        ({"tlsEndpoints": ["redis:0"]}, "found 'redis:0', wanted host:port"),
        ({"tlsEndpoints": ["redis:65536"]}, "wanted host:port"),
        ({"tlsEndpoints": [":6379"]}, "wanted host:port"),
    ],
)
def test_a_bad_document_is_refused_in_one_line(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UnreadableConfig) as refused:
        load(ExporterConfig, json.dumps({**json.loads(dump(WHOLE)), **changes}))

    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"hpaNamespaces": []}', "[" * 100_000])
def test_what_is_no_document_is_refused(text: str) -> None:
    with pytest.raises(UnreadableConfig, match="incomplete or malformed"):
        load(ExporterConfig, text)
