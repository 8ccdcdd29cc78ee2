"""A head whose state is in the stack's Redis: its settings, its access, and the removal of the state."""

import json
from functools import cache
from typing import Any

import pytest

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


def secrets(found: Recorded) -> set[str]:
    """The namespaces with Redis' password."""
    named = (it.inputs["metadata"] for it in found.all if it.type.endswith(":Secret"))
    return {it["namespace"] for it in named if it["name"] == "ebbtide-redis"}


def may_make_jobs(found: Recorded) -> bool:
    rules = found.named("ray-operator-flow-role").inputs["rules"]
    return any("create" in rule["verbs"] and "jobs" in rule["resources"] for rule in rules)


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


def test_a_user_of_redis_is_told() -> None:
    spec = with_redis(kind="url", url="rediss://flow@r.example.com:6380")

    assert spec["gcsFaultToleranceOptions"]["redisUsername"] == {"value": "flow"}


def test_a_certificate_of_the_stacks_own_is_in_the_namespace_of_such_a_head() -> None:
    keys = {key: {"secure": "v1:x"} for key in ("tls.crt", "tls.key", "ca.crt")}
    more = {"redis": {"kind": "in-cluster", "tls": {"secret": "tls"}}, "secrets": {"tls": keys}}
    found = Recorded(record(ray_settings(cluster=KEPT, digestKey={"secure": "v1:y"}, **more)))

    assert f"{NAMESPACE}.tls" in found.before(found.named("ray-flow-cluster"))
