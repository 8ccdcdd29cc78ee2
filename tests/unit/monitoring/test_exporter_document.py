"""The exporter's config document of a stack."""

from datetime import date
from pathlib import Path

from ebbtide.prices import on_demand
from ebbtide.settings import StackSettings, parse_stack
from ebbtide.settings.capacity.process_documents import exporter_config
from ebbtide.vocabulary.controller_config import RedisEndpoint
from ebbtide.vocabulary.documents import dump, load
from ebbtide.vocabulary.exporter import ExporterConfig
from tests.builders.existing import onprem, stack_config
from tests.builders.monitoring.alert_cases import STACK as ALERTING
from tests.builders.rights import hub_stack
from tests.builders.settings import loaded
from tests.builders.stack import stack_settings
from tests.builders.workloads.sleeping import sleeping_stack
from tests.components.ray.stack import ray_settings

PLAIN = RedisEndpoint(host="redis.example.com")


def test_it_looks_for_hpas_where_pods_of_the_stack_may_be() -> None:
    assert exporter_config(ray_settings(), PLAIN).hpa_namespaces == ("ebbtide", "ebbtide-ray-flow", "ebbtide-workers")
    assert "ebbtide-hub" in exporter_config(hub_stack(), PLAIN).hpa_namespaces


def test_nodes_cost_what_the_list_says_of_each_type_that_the_file_names() -> None:
    settings = stack_settings()
    named = {it for group in settings.node_groups.values() for it in group.instance_types}
    prices = exporter_config(settings, PLAIN).dollars_per_hour

    assert prices == {name: on_demand(settings.region, name) for name in named}
    assert len(prices) >= 3


def test_a_region_without_prices_has_none() -> None:
    settings = stack_settings().model_copy(update={"region": "eu-nowhere-1"})

    assert exporter_config(settings, PLAIN).prices == ()


def test_a_redis_with_tls_is_asked_for_its_certificate_and_a_plain_one_is_not() -> None:
    encrypted = RedisEndpoint(host="redis.example.com", port=6380, tls=True)

    assert exporter_config(stack_settings(), encrypted).tls_endpoints == ("redis.example.com:6380",)
    assert exporter_config(stack_settings(), PLAIN).tls_endpoints == ()


def with_holidays(**holidays: str) -> StackSettings:
    config = dict(stack_config("demo"))
    hours = {**config["ebbtide:businessHours"], "timezone": "Europe/Berlin", "holidays": holidays}
    return parse_stack(config | {"ebbtide:businessHours": hours}, stack="demo", file="demo.yaml")


def test_holidays_are_known_until_the_calendar_ends_and_without_a_country_there_is_no_calendar() -> None:
    config = exporter_config(with_holidays(country="DE"), PLAIN, years=(2026, 2027))

    assert (config.timezone, config.holidays_until) == ("Europe/Berlin", date(2027, 12, 31))
    assert exporter_config(with_holidays(), PLAIN).holidays_until is None


def test_it_knows_the_rules_for_adopted_pods_and_a_stack_without_them_has_no_such_key() -> None:
    adopted = exporter_config(ALERTING, PLAIN).adopted

    assert [(rule.name, rule.namespace, [(it.key, it.values) for it in rule.selector]) for rule in adopted] == [
        ("hub", "jupyter", [("app", ("hub",))])
    ]
    assert "adopted" not in dump(exporter_config(stack_settings(), PLAIN))
    assert load(ExporterConfig, dump(exporter_config(ALERTING, PLAIN))).adopted == adopted


def test_it_looks_for_workloads_left_asleep_where_they_may_be_and_knows_those_with_an_entry() -> None:
    ending = exporter_config(sleeping_stack(notes="sleep: { when: never }", rank="labels: {}"), PLAIN)

    assert ending.sleepers == ("statefulset ebbtide/board", "deployment ebbtide/notes")
    assert exporter_config(hub_stack(), PLAIN).workload_namespaces == ("ebbtide", "ebbtide-hub")
    assert load(ExporterConfig, dump(ending)) == ending


def test_each_groups_max_is_in_the_document_also_of_an_existing_cluster(tmp_path: Path) -> None:
    assert exporter_config(stack_settings(), PLAIN).max_nodes == {
        name: group.max for name, group in stack_settings().node_groups.items()
    }
    shapes = "nodeSelectors: { flexible: { pool: batch } }, nodeShapes: { flexible: { cpu: 8, memory: 32Gi, max: 9 } }"
    existing = exporter_config(loaded(onprem(shapes), tmp_path), PLAIN)

    assert load(ExporterConfig, dump(existing)).max_nodes == {"flexible": 9}
    assert "groupMax" not in dump(exporter_config(loaded(onprem(), tmp_path), PLAIN))
