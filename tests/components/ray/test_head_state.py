"""A head whose state is kept in the stack's Redis: how it gets there, who lets it in, and what goes with it."""

import json
from functools import cache
from typing import Any

import pytest

from components.pods.redis_access import CA_FILE
from ebbtide.settings.sections.ray import RECONNECT
from tests.builders.components import pod_of
from tests.builders.recorded import record
from tests.builders.stack import Recorded
from tests.components.ray.stack import NAMESPACE, ray_settings

pytestmark = pytest.mark.whole

HEAD = {"cpu": 2, "memory": "6Gi"}
KEPT = {"head": {**HEAD, "faultTolerance": "redis"}}


@cache
def stack(*, kept: bool) -> Recorded:
    return Recorded(record(ray_settings(cluster=KEPT if kept else None)))


def with_redis(**redis: Any) -> dict[str, Any]:
    """The wanted spec."""
    more: dict[str, Any] = {"redisPassword": "x" * 20} if redis["kind"] == "elasticache" else {}
    return wanted(Recorded(record(ray_settings(cluster=KEPT, redis=redis, **more))))


def wanted(found: Recorded) -> dict[str, Any]:
    return json.loads(found.named("ray-flow-cluster").inputs["metadata"]["annotations"]["ebbtide.dev/spec"])


def variables(template: dict[str, Any]) -> dict[str, str]:
    return {it["name"]: it.get("value", "") for it in template["spec"]["containers"][0]["env"]}


def secrets(found: Recorded) -> set[str]:
    """The namespaces that Redis' password is in."""
    named = (it.inputs["metadata"] for it in found.all if it.type.endswith(":Secret"))
    return {it["namespace"] for it in named if it["name"] == "ebbtide-redis"}


def may_make_jobs(found: Recorded) -> bool:
    rules = found.named("ray-operator-flow-role").inputs["rules"]
    return any("create" in rule["verbs"] and "jobs" in rule["resources"] for rule in rules)


def test_it_is_off_unless_the_file_says_so() -> None:
    found = stack(kept=False)

    assert "gcsFaultToleranceOptions" not in wanted(found)
    assert secrets(found) == {"ebbtide", "ebbtide-workers"}
    assert not may_make_jobs(found)
    assert RECONNECT[0] not in str(pod_of(found.named("drive-deployment")))
    assert not any(
        it.name.startswith("redis-") for it in found.all if it.name in found.before(found.named("ray-flow-cluster"))
    )


def test_the_head_is_told_of_redis_and_takes_the_password_from_the_secret_beside_it() -> None:
    found = stack(kept=True)

    assert wanted(found)["gcsFaultToleranceOptions"] == {
        "redisAddress": "redis://ebbtide-redis.ebbtide.svc:6379",
        "redisPassword": {"valueFrom": {"secretKeyRef": {"name": "ebbtide-redis", "key": "password"}}},
    }
    assert secrets(found) == {"ebbtide", "ebbtide-workers", NAMESPACE}


def test_the_operators_update_of_the_whole_object_has_no_empty_list_to_drop() -> None:
    assert "[]" not in json.dumps(wanted(stack(kept=True)))


def test_workers_of_the_driving_pool_wait_for_a_new_head_as_long_as_rays_own_pods() -> None:
    env = {
        it["name"]: it.get("value") for it in pod_of(stack(kept=True).named("drive-deployment"))["containers"][0]["env"]
    }

    assert env[RECONNECT[0]] == "600"
    assert RECONNECT[0] not in str(pod_of(stack(kept=True).named("train-deployment")))


def test_the_operator_cleans_up_in_redis_which_is_still_there_at_a_destroy() -> None:
    found = stack(kept=True)
    cluster = found.named("ray-flow-cluster")

    assert may_make_jobs(found)
    assert {"redis-server", "redis-ray-flow-secret", "redis-clients", "ray-operator-flow-role"} <= found.before(cluster)
    assert cluster.inputs["metadata"]["annotations"]["pulumi.com/deletionPropagationPolicy"] == "background"


@pytest.mark.parametrize(
    ("redis", "address", "authority"),
    [
        ({"kind": "in-cluster", "tls": {"secret": "tls"}}, "rediss://ebbtide-redis.ebbtide.svc:6379", CA_FILE),
        ({"kind": "elasticache"}, "rediss://", "/etc/ssl/certs/ca-certificates.crt"),
        ({"kind": "url", "url": "redis://r.example.com:6380/2"}, "redis://r.example.com:6380", None),
    ],
)
def test_ray_is_told_whom_to_trust(redis: dict[str, Any], address: str, authority: str | None) -> None:
    spec = with_redis(**redis)
    head, worker = spec["headGroupSpec"]["template"], spec["workerGroupSpecs"][0]["template"]

    assert spec["gcsFaultToleranceOptions"]["redisAddress"].startswith(address)
    assert variables(head).get("RAY_REDIS_CA_CERT") == authority
    mounted = [it["mountPath"] for it in head["spec"]["containers"][0]["volumeMounts"]]
    assert ("/etc/ebbtide-redis" in mounted) is (authority == CA_FILE)
    assert "ebbtide-redis" not in str(worker)


def test_a_user_of_redis_is_told() -> None:
    spec = with_redis(kind="url", url="rediss://flow@r.example.com:6380")

    assert spec["gcsFaultToleranceOptions"]["redisUsername"] == {"value": "flow"}


def test_a_certificate_of_the_stacks_own_is_in_the_namespace_of_such_a_head() -> None:
    keys = {key: {"secure": "v1:x"} for key in ("tls.crt", "tls.key", "ca.crt")}
    more = {"redis": {"kind": "in-cluster", "tls": {"secret": "tls"}}, "secrets": {"tls": keys}}
    found = Recorded(record(ray_settings(cluster=KEPT, digestKey={"secure": "v1:y"}, **more)))

    assert f"{NAMESPACE}.tls" in found.before(found.named("ray-flow-cluster"))
