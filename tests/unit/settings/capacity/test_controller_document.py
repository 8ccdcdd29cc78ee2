"""The controller's config document of a stack."""

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from ebbtide.settings import controller_config, load_stack
from ebbtide.settings.capacity import process_documents
from ebbtide.settings.sections.workers import WorkerSettings
from ebbtide.vocabulary.controller_config import (
    BudgetPolicy,
    ControllerConfig,
    Floor,
    Morning,
    PoolPolicy,
    RedisEndpoint,
)
from ebbtide.vocabulary.documents import OMIT_DEFAULT, dump, load
from tests.builders.settings import SHORTEST, loaded, shortest
from tests.paths import DATA

REDIS = RedisEndpoint(host="ebbtide-redis")
TRAIN = SHORTEST.splitlines()[-1].strip()


def test_only_flexible_workloads_have_a_budget_that_the_controller_knows(tmp_path: Path) -> None:
    more = """
        ebbtide:workloads:
          head: { category: fixed, image: "a:1", cpu: 1, memory: 1Gi }
          api: { category: flexible, image: "a:1", cpu: 1, memory: 1Gi }
    """
    config = controller_config(loaded(shortest(more=more), tmp_path), REDIS)

    assert config.budgets == (BudgetPolicy(name="api", namespace="ebbtide"),)


def test_a_pool_is_its_deployment_in_the_workers_namespace(tmp_path: Path) -> None:
    (pool,) = controller_config(loaded(shortest(), tmp_path), REDIS).pools

    assert (pool.name, pool.deployment, pool.namespace) == ("train", "train", "ebbtide-workers")
    assert (pool.source, pool.queues, pool.max_workers) == ("rq", ("train",), 4)
    assert pool.safe_stop


def test_the_order_in_the_file_makes_no_difference(tmp_path: Path) -> None:
    """Pulumi passes the config sorted; otherwise a preview of the file would show changes that `up` does not make."""
    lines = [f'{name}: {{ category: flexible, image: "a:1", cpu: 1, memory: 1Gi }}' for name in ("api", "web")]
    pools = ['mail: { source: { queues: [mail] }, image: "a:1", max: 1, cpu: 1, memory: 1Gi, longestJob: 1h }', TRAIN]
    texts = [
        shortest(more="\n  ".join(["ebbtide:workloads:", *lines[::step]])).replace(TRAIN, "\n    ".join(pools[::step]))
        for step in (1, -1)
    ]

    first, second = (controller_config(loaded(text, tmp_path), REDIS) for text in texts)

    assert first == second
    assert (len(first.pools), len(first.budgets)) == (2, 2)


def test_a_stop_that_is_not_safe_is_passed_on(tmp_path: Path) -> None:
    (pool,) = controller_config(loaded(shortest(train="safeStop: false"), tmp_path), REDIS).pools

    assert not pool.safe_stop


def test_planned_work_becomes_a_floor_of_its_pool(tmp_path: Path) -> None:
    text = shortest(hours='overnight: [{ pool: train, at: "02:30", for: 2h, workers: 3 }]')

    (pool,) = controller_config(loaded(text, tmp_path), REDIS).pools

    assert pool.floors == (Floor(at=150, lasting=timedelta(hours=2), workers=3),)


def test_the_document_of_each_example_stack_survives_the_journey() -> None:
    for name in ("demo", "example-berlin"):
        config = controller_config(load_stack(name, DATA), REDIS, years=(2026, 2027))

        assert load(ControllerConfig, dump(config)) == config


def test_fixed_budgets_and_our_own_are_for_the_closer_alone(tmp_path: Path) -> None:
    more = 'ebbtide:workloads: { head: { category: fixed, image: "a:1", cpu: 1, memory: 1Gi } }'
    elsewhere = more + '\nebbtide:redis: { kind: url, url: "redis://example.com" }'

    def names(text: str) -> list[str]:
        return [budget.name for budget in controller_config(loaded(text, tmp_path), REDIS).never_opened]

    assert names(shortest(more=more)) == ["head", "ebbtide-controller", "ebbtide-redis"]
    assert names(shortest(more=elsewhere)) == ["head", "ebbtide-controller"]


def test_growth_drain_and_morning_are_passed_on(tmp_path: Path) -> None:
    train = "drainWithin: 10m, jobTakes: 90s, growthPerMinute: 3, morning: { workers: 2, for: 30m }"

    (pool,) = controller_config(loaded(shortest(train=train), tmp_path), REDIS).pools

    assert (pool.jobs_per_worker, pool.growth_per_minute) == (6, 3)
    assert pool.drain_within == timedelta(minutes=10)
    assert pool.morning == Morning(lasting=timedelta(minutes=30), workers=2)


def test_what_is_not_asked_for_is_no_limit(tmp_path: Path) -> None:
    (pool,) = controller_config(loaded(shortest(), tmp_path), REDIS).pools

    assert (pool.jobs_per_worker, pool.growth_per_minute, pool.drain_within, pool.morning) == (1, None, None, None)


@pytest.mark.parametrize(
    ("keys", "budgets"),
    [
        ("", ()),
        ("checkpoints: { claim: efs }", (BudgetPolicy(name="train", namespace="ebbtide-workers"),)),
        (
            "checkpoints: { claim: efs, interruptible: always }",
            (BudgetPolicy(name="train", namespace="ebbtide-workers", always=True),),
        ),
        ("checkpoints: { claim: efs, required: true }, nodeGroup: spot", ()),
    ],
)
def test_the_budget_of_a_pool_that_can_pause_is_the_controllers_to_open(
    keys: str, budgets: tuple[BudgetPolicy, ...], tmp_path: Path
) -> None:
    text = shortest(train=keys, more="ebbtide:nodeGroups: { spot: { max: 4 } }")
    config = controller_config(loaded(text, tmp_path), REDIS)

    assert config.budgets == load(ControllerConfig, dump(config)).budgets == budgets


@dataclass(frozen=True, slots=True, kw_only=True)
class _PolicyWithKey(PoolPolicy):
    patience: timedelta = field(default=timedelta(), metadata=OMIT_DEFAULT)


class _SettingsWithKey(WorkerSettings):
    patience: timedelta


def test_a_new_key_of_a_pool_reaches_the_document_by_its_field_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_documents, "PoolPolicy", _PolicyWithKey)
    settings = loaded(shortest(), tmp_path)
    pool = _SettingsWithKey.model_construct(**vars(settings.workers["train"]), patience=timedelta(minutes=7))
    with_key = settings.model_copy(update={"workers": {"train": pool}})

    assert '"patience": 420.0' in dump(controller_config(with_key, REDIS))


def test_a_field_of_a_pool_that_no_key_sets_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_documents, "PoolPolicy", _PolicyWithKey)

    with pytest.raises(AttributeError, match="patience"):
        controller_config(loaded(shortest(), tmp_path), REDIS)
