"""The deployed exporter: only with a Prometheus, small, and with rights to read only."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import pulumi
import pytest

from components.context import StackContext
from components.monitoring.exporter import Exporter, ExporterArgs
from ebbtide.settings.sections.monitoring import PrometheusKind
from ebbtide.vocabulary.documents import dump
from ebbtide.vocabulary.exporter import ExporterConfig
from ebbtide.vocabulary.labels import EXPORTER
from tests.builders.components import recorded
from tests.builders.monitoring.watched import WATCHED, stack
from tests.builders.recorded import record
from tests.builders.rights import hub_stack
from tests.builders.stack import Recorded
from tests.components.cluster.test_network_policies import (
    API_SERVER,
    DNS,
    INTERNET,
    METADATA,
    PROMETHEUS,
    Pod,
    Policies,
)
from tests.components.ray.stack import ray_settings

pytestmark = pytest.mark.whole

POD = Pod(namespace="ebbtide", labels={"ebbtide.dev/workload": EXPORTER})
REDIS = Pod(namespace="ebbtide", labels={"ebbtide.dev/workload": "ebbtide-redis"})
READ = {"get", "list", "watch"}
TLS = {"kind": "url", "url": "rediss://redis.example.com:6380/0"}


def inputs(found: Recorded, kind: str) -> list[dict[str, Any]]:
    return [dict(one.inputs) for one in found.of(kind) if one.inputs.get("metadata", {}).get("name") == EXPORTER]


def the(kind: str) -> dict[str, Any]:
    (one,) = inputs(stack(), kind)
    return one


@cache
def with_tls() -> Recorded:
    return Recorded(record(ray_settings(monitoring=WATCHED, redis=TLS)))


def rules(found: Recorded) -> Iterator[tuple[str, str, str]]:
    """Verb, resource and namespace, "" for all of them."""
    for kind in ("ClusterRole", "Role"):
        for one in inputs(found, kind):
            for rule in one["rules"]:
                assert "resourceNames" not in rule
                for resource in rule["resources"]:
                    group = rule["apiGroups"][0]
                    where = one["metadata"].get("namespace", "")
                    yield from ((verb, f"{resource}.{group}".rstrip("."), where) for verb in rule["verbs"])


def test_it_may_read_nodes_and_pods_everywhere_and_four_kinds_in_the_stacks_own_namespaces() -> None:
    spaces = ("ebbtide", "ebbtide-ray-flow", "ebbtide-workers")
    wanted = {(verb, kind, "") for verb in READ for kind in ("nodes", "pods")}
    wanted |= {(verb, "horizontalpodautoscalers.autoscaling", space) for verb in READ for space in spaces}
    kinds = ("cronjobs.batch", "deployments.apps", "statefulsets.apps")
    wanted |= {(verb, kind, "ebbtide") for verb in READ for kind in kinds}

    assert {*rules(stack())} == wanted


def test_each_role_is_bound_to_its_account_alone() -> None:
    account = {"kind": "ServiceAccount", "name": EXPORTER, "namespace": "ebbtide"}
    bindings = [*inputs(stack(), "RoleBinding"), the("ClusterRoleBinding")]

    assert the("ServiceAccount")["metadata"]["namespace"] == "ebbtide"
    assert [it["subjects"] for it in bindings] == [[account]] * 4
    assert {(it["roleRef"]["kind"], it["roleRef"]["name"]) for it in bindings} == {
        ("Role", EXPORTER),
        ("ClusterRole", EXPORTER),
    }


def test_of_a_cache_that_is_still_to_be_made_the_address_is_written_once_it_is_known() -> None:
    def program() -> None:
        args = ExporterArgs(
            stack=StackContext(customer="demo", cache_host=pulumi.Output.from_input("cache.example.com")),
            config=ExporterConfig(namespace="ebbtide", tls_endpoints=("known-once-it-exists.invalid:6379",)),
        )
        Exporter("exporter", args)

    (written,) = [one.inputs["data"]["exporter.json"] for one in recorded(program) if one.type.endswith(":ConfigMap")]

    assert written == dump(ExporterConfig(namespace="ebbtide", tls_endpoints=("cache.example.com:6379",)))


def test_a_namespace_is_there_before_the_rights_in_it() -> None:
    found = Recorded(record(hub_stack(monitoring={"prometheus": PrometheusKind.EXISTING, "namespace": "monitoring"})))
    (role,) = [
        one for one in found.of("Role") if one.inputs.get("metadata") == {"name": EXPORTER, "namespace": "ebbtide-hub"}
    ]
    (space,) = [one for one in found.of("Namespace") if one.inputs["metadata"]["name"] == "ebbtide-hub"]

    assert space.urn in found.urns_before(role)


@pytest.mark.parametrize(
    ("target", "port", "reached"),
    [
        (DNS, 53, True),
        (API_SERVER, 443, True),
        (API_SERVER, 6443, True),
        (INTERNET, 6380, False),
        (INTERNET, 80, False),
        (METADATA, 443, False),
        (REDIS, 6379, False),
    ],
)
def test_it_calls_the_api_server_and_names_and_nothing_else(target: Any, port: int, reached: bool) -> None:
    assert Policies(stack().all).allow(POD, target, port) is reached


def test_with_tls_it_calls_redis_too_on_its_port() -> None:
    found = Policies(with_tls().all)

    assert found.allow(POD, INTERNET, 6380)
    assert not found.allow(POD, INTERNET, 6379)


def test_the_stacks_own_redis_with_tls_lets_it_in() -> None:
    encrypted = {"kind": "in-cluster", "tls": {"secret": "redis-tls"}}
    found = Policies(record(ray_settings(monitoring=WATCHED, redis=encrypted)))

    assert found.allow(POD, REDIS, 6379)


def test_prometheus_alone_calls_it() -> None:
    found = Policies(stack().all)

    assert found.allow(PROMETHEUS, POD, 8080)
    assert not found.allow(PROMETHEUS, POD, 22)
    assert not found.allow(Pod(namespace="ebbtide", labels={"ebbtide.dev/workload": "api"}), POD, 8080)
