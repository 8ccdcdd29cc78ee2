"""The in-cluster Redis server, the endpoint, and the password, which is only in the Secret."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import pulumi
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.pods.redis_access import CA_FILE, RedisAuthority, python_url, redis_endpoint, redis_url
from components.redis.queues import Redis, RedisArgs
from components.redis.users import RedisAclUser
from ebbtide.recording.resources import Resource
from ebbtide.settings.sections.adopted import AdoptedSettings
from ebbtide.settings.sections.redis import RedisKind, RedisSettings, RedisTls
from ebbtide.vocabulary.controller_config import RedisEndpoint
from tests.builders.components import STACK, of_kind, pod_of, recorded, the

IN_CLUSTER = RedisSettings.model_construct(kind=RedisKind.IN_CLUSTER, url=None)
CACHE = RedisSettings(kind=RedisKind.ELASTICACHE)
ENCRYPTED = RedisSettings(tls=RedisTls(secret="redis-tls"))


def outside(url: str) -> RedisSettings:
    return RedisSettings.model_construct(kind=RedisKind.URL, url=url)


def redis(settings: RedisSettings = IN_CLUSTER, password: str | None = None, **more: Any) -> tuple[Resource, ...]:
    def program() -> None:
        secret = None if password is None else pulumi.Output.secret(password)
        Redis("redis", RedisArgs(stack=replace(STACK, **more), settings=settings, password=secret))

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


def test_only_our_namespaces_may_connect() -> None:
    policy = the(redis(), "NetworkPolicy").inputs["spec"]

    assert policy["podSelector"] == {"matchLabels": {"ebbtide.dev/workload": "ebbtide-redis"}}
    sources = [peer["namespaceSelector"]["matchLabels"] for peer in policy["ingress"][0]["from"]]
    assert sources == [
        {"kubernetes.io/metadata.name": "ebbtide"},
        {"kubernetes.io/metadata.name": "ebbtide-workers"},
    ]


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


def test_a_cache_of_aws_gets_a_secret_with_its_true_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulumi.Output, "secret", staticmethod(pulumi.Output.from_input))  # so that it can be read here
    secret, _ = of_kind(redis(CACHE, "hush-hush", cache_host="master.acme.example"), "Secret")

    assert secret.inputs["stringData"]["url"] == "rediss://:hush-hush@master.acme.example:6379/0"
    assert secret.inputs["stringData"]["python-url"].startswith("rediss://:hush-hush@master.acme.example:6379/0?")


def test_the_address_that_stands_in_for_a_later_one_can_never_be_somebodys() -> None:
    assert redis_endpoint(CACHE).host.endswith(".invalid")  # RFC 2606


@given(password=st.text(min_size=1), username=st.none() | st.text(min_size=1))
def test_any_password_survives_the_url(password: str, username: str | None) -> None:
    endpoint = RedisEndpoint(host="cache.example", port=6380, db=2, tls=True, username=username)
    parts = urlsplit(redis_url(endpoint, password))

    assert unquote(parts.password or "") == password
    assert unquote(parts.username or "") == (username or "")
    assert (parts.scheme, parts.hostname, parts.port, parts.path) == ("rediss", "cache.example", 6380, "/2")


def claim(resources: tuple[Resource, ...]) -> Mapping[str, Any]:
    (template,) = the(resources, "StatefulSet").inputs["spec"]["volumeClaimTemplates"]
    return template["spec"]


def test_a_changed_volume_size_never_replaces_a_running_redis() -> None:
    resources = redis(RedisSettings(storage="16Gi", memory="4Gi"))  # pyright: ignore[reportArgumentType] - as a file says it

    assert claim(resources)["resources"] == {"requests": {"storage": "16Gi"}}
    assert the(resources, "StatefulSet").ignore_changes == ("spec.volumeClaimTemplates",)


def test_on_eks_the_volume_outlives_the_stack_unless_the_file_says_otherwise() -> None:
    kept, dropped = redis(on_ebs=True), redis(RedisSettings(keep_on_destroy=False), on_ebs=True)

    assert the(kept, "StorageClass").inputs["reclaimPolicy"] == "Retain"
    assert claim(kept)["storageClassName"] == the(kept, "StorageClass").inputs["metadata"]["name"]
    assert "storageClassName" not in claim(dropped)


def test_with_a_certificate_the_plain_port_is_closed() -> None:
    pod = pod_of(the(redis(ENCRYPTED), "StatefulSet"))
    arguments = pod["containers"][0]["args"]
    options = dict(zip(arguments[::2], arguments[1::2], strict=True))

    assert (options["--port"], options["--tls-port"]) == ("0", "6379")
    assert options["--tls-key-file"] == "/tls/tls.key"
    assert {"name": "tls", "mountPath": "/tls", "readOnly": True} in pod["containers"][0]["volumeMounts"]
    assert pod["volumes"] == [{"name": "tls", "secret": {"secretName": "redis-tls", "defaultMode": 0o440}}]


def test_clients_of_an_encrypted_redis_check_its_authority() -> None:
    endpoint = redis_endpoint(ENCRYPTED)

    assert (endpoint.tls, endpoint.ca_file) == (True, CA_FILE)
    assert python_url(endpoint, "hush") == (
        "rediss://:hush@ebbtide-redis.ebbtide.svc:6379/0"
        "?ssl_cert_reqs=required&ssl_check_hostname=true&ssl_ca_certs=/etc/ebbtide-redis/ca.crt"
    )


def test_only_with_tls_is_there_a_second_address_and_the_keys_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulumi.Output, "secret", staticmethod(pulumi.Output.from_input))  # so that it can be read here
    for settings in (IN_CLUSTER, ENCRYPTED, CACHE, outside("rediss://cache.example")):
        for secret in of_kind(redis(settings), "Secret"):
            listed = secret.inputs["metadata"]["annotations"]["ebbtide.dev/secret-keys"].split(",")

            assert set(secret.inputs["stringData"]) == set(listed)
            assert ("python-url" in listed) is redis_endpoint(settings).tls


def test_a_client_sees_the_authority_and_never_the_key() -> None:
    trusting = RedisAuthority(secret="redis-tls").trusted_by({"containers": [{"name": "worker"}]})
    pod = cast("Mapping[str, Any]", trusting)

    assert pod["containers"][0]["env"] == [{"name": "REDIS_CA_FILE", "value": CA_FILE}]
    assert pod["volumes"] == [
        {
            "name": "redis-authority",
            "secret": {"secret_name": "redis-tls", "items": [{"key": "ca.crt", "path": "ca.crt"}]},
        }
    ]


def test_a_private_authority_of_a_redis_elsewhere_is_trusted_too() -> None:
    private = RedisSettings(kind=RedisKind.URL, url="rediss://cache.example", tls=RedisTls(secret="redis-ca"))

    assert redis_endpoint(private).ca_file == CA_FILE
    assert redis_endpoint(outside("rediss://cache.example")).ca_file is None


def test_adopted_pods_get_their_own_user_secret_and_way_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulumi.Output, "secret", staticmethod(pulumi.Output.from_input))  # so that it can be read here
    rule = AdoptedSettings.model_construct(namespace="team", selector={"app": ("api",)})
    users = {"api": RedisAclUser(rule=rule, rights=["~api:*"])}

    def program() -> None:
        Redis("redis", RedisArgs(stack=STACK, settings=IN_CLUSTER, password="hush", users=users))

    resources = recorded(program)
    secrets = {
        (secret.inputs["metadata"]["namespace"], secret.inputs["metadata"]["name"]): secret.inputs["stringData"]
        for secret in of_kind(resources, "Secret")
    }
    (container,) = pod_of(the(resources, "StatefulSet"))["containers"]
    derived = secrets["ebbtide", "ebbtide-redis-users"]["api"]
    peers = [
        peer for policy in of_kind(resources, "NetworkPolicy") for peer in policy.inputs["spec"]["ingress"][0]["from"]
    ]

    assert derived != "hush"
    assert (
        secrets["team", "ebbtide-redis-api"]["url"] == f"redis://ebbtide-api:{derived}@ebbtide-redis.ebbtide.svc:6379/0"
    )
    assert container["args"][-5:] == ["--user", "ebbtide-api", "on", ">$(REDIS_USER_API)", "~api:*"]
    assert ("REDIS_USER_API", "ebbtide-redis-users", "api") in {
        (entry["name"], entry["valueFrom"]["secretKeyRef"]["name"], entry["valueFrom"]["secretKeyRef"]["key"])
        for entry in container["env"]
    }
    assert {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "team"}},
        "podSelector": {"matchLabels": {"app": "api"}},
    } in peers
