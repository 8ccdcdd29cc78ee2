"""The Redis server in the cluster, the endpoint everywhere, and the password nowhere but in the Secret."""

import json
from dataclasses import asdict
from urllib.parse import unquote, urlsplit

import pulumi
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.redis import Redis, RedisArgs, redis_endpoint, redis_url
from ebbtide.preview.resources import Resource
from ebbtide.settings.redis import RedisKind, RedisSettings
from ebbtide.vocabulary.controller_config import RedisEndpoint
from tests.builders_components import of_kind, pod_of, recorded, the

IN_CLUSTER = RedisSettings.model_construct(kind=RedisKind.IN_CLUSTER, url=None)


def outside(url: str) -> RedisSettings:
    return RedisSettings.model_construct(kind=RedisKind.URL, url=url)


def redis(settings: RedisSettings = IN_CLUSTER, password: str | None = None) -> tuple[Resource, ...]:
    def program() -> None:
        secret = None if password is None else pulumi.Output.secret(password)
        Redis("redis", RedisArgs(settings=settings, namespace="ebbtide", customer="acme", password=secret))

    return recorded(program)


def test_the_server_keeps_its_queues_on_a_volume_of_a_fixed_node() -> None:
    server = the(redis(), "StatefulSet")
    container = pod_of(server)["containers"][0]

    assert server.inputs["spec"]["replicas"] == 1
    assert pod_of(server)["nodeSelector"] == {"ebbtide.dev/node-kind": "fixed"}
    assert server.inputs["spec"]["volumeClaimTemplates"][0]["metadata"]["name"] == "data"
    assert container["volumeMounts"] == [{"name": "data", "mountPath": "/data"}]


def test_a_full_redis_refuses_jobs_instead_of_dropping_them() -> None:
    arguments = pod_of(the(redis(), "StatefulSet"))["containers"][0]["args"]

    assert dict(zip(arguments[::2], arguments[1::2], strict=True)) == {
        "--dir": "/data",
        "--appendonly": "yes",
        "--maxmemory": "1536mb",
        "--maxmemory-policy": "noeviction",
        "--requirepass": "$(REDIS_PASSWORD)",
        "--protected-mode": "no",
    }


def test_its_budget_is_closed_and_pulumis_own() -> None:
    budget = the(redis(), "PodDisruptionBudget")

    assert budget.inputs["spec"]["maxUnavailable"] == 0
    assert budget.ignore_changes == ()


def test_only_our_namespaces_may_connect() -> None:
    policy = the(redis(), "NetworkPolicy").inputs["spec"]

    assert policy["podSelector"] == {"matchLabels": {"ebbtide.dev/workload": "ebbtide-redis"}}
    sources = [peer["namespaceSelector"]["matchLabels"] for peer in policy["ingress"][0]["from"]]
    assert sources == [
        {"kubernetes.io/metadata.name": "ebbtide"},
        {"kubernetes.io/metadata.name": "ebbtide-workers"},
    ]


def test_the_endpoint_is_the_service() -> None:
    service = the(redis(), "Service").inputs

    assert redis_endpoint(IN_CLUSTER).host == f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
    assert redis_endpoint(IN_CLUSTER).port == service["spec"]["ports"][0]["port"]
    assert service["spec"]["clusterIP"] == "None"


def test_both_namespaces_get_the_same_secret_with_or_without_a_password() -> None:
    for resources in (redis(), redis(password="hush-hush")):
        secrets = of_kind(resources, "Secret")

        assert {secret.inputs["metadata"]["namespace"] for secret in secrets} == {"ebbtide", "ebbtide-workers"}
        assert {secret.inputs["metadata"]["name"] for secret in secrets} == {"ebbtide-redis"}


def test_the_password_is_registered_as_a_secret_only() -> None:
    resources = redis(password="hush-hush")

    assert "hush-hush" not in json.dumps([asdict(resource) for resource in resources])


def test_the_secret_holds_the_password_and_the_whole_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulumi.Output, "secret", staticmethod(pulumi.Output.from_input))  # so that it can be read here
    secret, _ = of_kind(redis(password="hush/hush"), "Secret")

    assert secret.inputs["stringData"] == {
        "password": "hush/hush",
        "url": "redis://:hush%2Fhush@ebbtide-redis.ebbtide.svc:6379/0",
    }


def test_a_redis_elsewhere_gets_a_secret_and_no_server() -> None:
    resources = redis(outside("rediss://queue@cache.example:6380/2"))

    assert {resource.type for resource in resources} == {"ebbtide:components:Redis", "kubernetes:core/v1:Secret"}
    assert redis_endpoint(outside("rediss://queue@cache.example:6380/2")) == RedisEndpoint(
        host="cache.example", port=6380, db=2, tls=True, username="queue", password_env="REDIS_PASSWORD"
    )


def test_port_and_database_have_defaults() -> None:
    endpoint = redis_endpoint(outside("redis://cache.example"))

    assert (endpoint.port, endpoint.db, endpoint.tls) == (6379, 0, False)


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("http://cache.example", "wanted redis://"),
        ("redis://", "wanted redis://"),
        ("redis://:hush-hush@cache.example", "holds a password"),
        ("redis://cache.example/jobs", "wanted a database number"),
    ],
)
def test_a_bad_address_says_what_is_wanted_and_never_repeats_a_password(url: str, wanted: str) -> None:
    with pytest.raises(ValueError, match=wanted) as refused:
        redis_endpoint(outside(url))

    assert "hush-hush" not in str(refused.value)


def test_a_cache_that_is_not_built_yet_is_refused() -> None:
    with pytest.raises(ValueError, match="elasticache is not built yet"):
        redis_endpoint(RedisSettings.model_construct(kind=RedisKind.ELASTICACHE, url=None))


@given(password=st.text(min_size=1), username=st.none() | st.text(min_size=1))
def test_any_password_survives_the_url(password: str, username: str | None) -> None:
    endpoint = RedisEndpoint(host="cache.example", port=6380, db=2, tls=True, username=username)
    parts = urlsplit(redis_url(endpoint, password))

    assert unquote(parts.password or "") == password
    assert unquote(parts.username or "") == (username or "")
    assert (parts.scheme, parts.hostname, parts.port, parts.path) == ("rediss", "cache.example", 6380, "/2")


def test_without_a_password_the_url_has_no_login() -> None:
    assert redis_url(RedisEndpoint(host="cache.example"), "") == "redis://cache.example:6379/0"
