"""Settings with defaults, and what a component registered for them."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import cache
from typing import Any, cast

from components.context import StackContext
from ebbtide.recording.record import record_program
from ebbtide.recording.resources import Resource
from ebbtide.settings import load_stack
from ebbtide.settings.sections.workers import Source, WorkerSettings
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.vocabulary.controller_config import (
    BrokerEndpoint,
    BudgetPolicy,
    ControllerConfig,
    PoolPolicy,
    RedisEndpoint,
)
from ebbtide.vocabulary.labels import Category
from ebbtide.vocabulary.windows import BusinessHours, WeeklyInterval
from tests.builders.recorded import record
from tests.paths import DATA

STACK = StackContext(customer="acme")
REDIS = RedisEndpoint(host="ebbtide-redis.ebbtide.svc", password_env="REDIS_PASSWORD")
BROKER = BrokerEndpoint(
    name="jobs",
    host="mq.example.com",
    port=5671,
    vhost="prod",
    tls=True,
    management="https://mq.example.com:443",
    username="reader",
    password_env="BROKER_JOBS_PASSWORD",
)
"""A RabbitMQ."""
WORKING_DAYS = tuple(WeeklyInterval(day, 8 * 60, 19 * 60) for day in range(5))


def workload_settings(category: Category = Category.FLEXIBLE, **changes: Any) -> WorkloadSettings:
    values: dict[str, Any] = {"category": category, "image": "api:1", "replicas": 3, "cpu": 1000, "memory": 2048}
    return WorkloadSettings.model_construct(**{**_defaults(WorkloadSettings), **values, **changes})


def worker_settings(**changes: Any) -> WorkerSettings:
    values: dict[str, Any] = {
        "source": Source(queues=("train",)),
        "image": "train:1",
        "max": 30,
        "cpu": 4000,
        "memory": 16384,
        "longest_job": timedelta(hours=12),
        "node_group": "flexible",
    }
    derived: dict[str, Any] = {"jobs_per_worker": 1, "safe_stop": True}
    return WorkerSettings.model_construct(**{**_defaults(WorkerSettings), **derived, **values, **changes})


def pool_policy(name: str = "train") -> PoolPolicy:
    return PoolPolicy(
        name=name,
        namespace="ebbtide-workers",
        deployment=name,
        source="rq",
        queues=(name,),
        jobs_per_worker=1,
        min_workers=0,
        max_workers=30,
        stabilization_window=timedelta(minutes=2),
        longest_job=timedelta(hours=12),
        safe_stop=True,
    )


def controller_config(
    *,
    pools: Sequence[str] = ("train",),
    budgets: Sequence[str] = ("api",),
    week: Sequence[WeeklyInterval] = WORKING_DAYS,
    guard: timedelta = timedelta(minutes=15),
) -> ControllerConfig:
    return ControllerConfig(
        customer="acme",
        hours=BusinessHours(timezone="America/New_York", week=tuple(week)),
        closing_guard=guard,
        node_startup=timedelta(minutes=5),
        resync=timedelta(seconds=5),
        redis=REDIS,
        pools=tuple(pool_policy(name) for name in pools),
        budgets=tuple(BudgetPolicy(name=name, namespace="ebbtide") for name in budgets),
    )


def recorded(program: Callable[[], object]) -> tuple[Resource, ...]:
    return record_program(program).resources


def of_kind(resources: Sequence[Resource], kind: str) -> list[Resource]:
    """The objects of one kind: "Deployment", "PodDisruptionBudget"."""
    return [resource for resource in resources if resource.type.endswith(f":{kind}")]


def the(resources: Sequence[Resource], kind: str) -> Resource:
    found = of_kind(resources, kind)
    assert len(found) == 1, f"wanted one {kind}, found {[resource.name for resource in found]}"
    return found[0]


def pod_of(resource: Resource) -> Mapping[str, Any]:
    """The pod spec inside a Deployment or StatefulSet."""
    return cast("Mapping[str, Any]", resource.inputs["spec"]["template"]["spec"])


def _defaults(model: type[WorkloadSettings] | type[WorkerSettings]) -> dict[str, Any]:
    return {name: field.default for name, field in model.model_fields.items() if not field.is_required()}


@cache
def demo_stack() -> tuple[Resource, ...]:
    """The demo customer's whole stack, recorded once."""
    return record(load_stack("demo", DATA))
