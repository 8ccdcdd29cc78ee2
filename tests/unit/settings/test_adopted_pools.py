"""Pools whose Deployment others write: `ebbtide:adopted.<rule>.pool`."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from ebbtide.settings import controller_config, warnings_of
from ebbtide.settings.capacity.placed import resident_pods
from ebbtide.settings.capacity.placement import with_adopted_pools
from ebbtide.vocabulary.controller_config import CeleryKeys, Floor, RedisEndpoint
from ebbtide.vocabulary.documents import dump, load
from tests.builders.settings import loaded, problem_of, problems_of, shortest, told

REDIS = RedisEndpoint(host="ebbtide-redis")
SOURCE = "source: { kind: celery, queues: [etl], acks: late }"


def with_loader(pool: str = "", *, rule: str = "", hours: str = "", more: str = "") -> str:
    """A stack file with one adopted pool; `pool` and `rule` are added inside their mappings, `more` beside the rule."""
    keys = f"{SOURCE}, max: 12, longestJob: 1h{', ' + pool if pool else ''}"
    loader = (
        f"namespace: etl, selector: {{ app: loader }}, cpu: 2, memory: 4Gi, pool: {{ {keys} }}{rule and ', ' + rule}"
    )
    lines = [
        'ebbtide:cluster: { version: "1.36" }',
        "ebbtide:adopted:",
        f"  loader: {{ {loader} }}",
        *([more] if more else []),
    ]
    return shortest(hours=hours, more="\n".join(lines))


def test_the_pool_sizes_the_teams_deployment(tmp_path: Path) -> None:
    config = controller_config(loaded(with_loader("deployment: etl-loader, safeStop: true"), tmp_path), REDIS)
    train = next(pool for pool in config.pools if pool.name == "train")
    expected = replace(
        train,
        name="loader",
        namespace="etl",
        deployment="etl-loader",
        adopted=True,
        source="celery",
        queues=("etl",),
        max_workers=12,
        longest_job=timedelta(hours=1),
    )

    assert [pool.name for pool in config.pools] == ["loader", "train"]
    assert config.pools[0] == expected
    assert config.budgets == ()
    assert load(type(config), dump(config)) == config


def test_without_more_it_has_the_rules_name_and_no_safe_stop(tmp_path: Path) -> None:
    loader = controller_config(loaded(with_loader(), tmp_path), REDIS).pools[0]

    assert (loader.deployment, loader.safe_stop, loader.celery) == ("loader", False, None)


def test_celerys_keys_and_planned_work_reach_the_pool(tmp_path: Path) -> None:
    text = with_loader(hours='overnight: [{ pool: loader, at: "02:30", for: 2h, workers: 3 }]')
    text = text.replace("acks: late", 'acks: late, keyPrefix: "ml:"')

    loader = controller_config(loaded(text, tmp_path), REDIS).pools[0]

    assert loader.floors == (Floor(at=150, lasting=timedelta(hours=2), workers=3),)
    assert loader.celery == CeleryKeys(prefix="ml:")


def test_a_replay_has_it_among_the_workers_on_the_cheapest_group(tmp_path: Path) -> None:
    settings = loaded(with_loader("jobsPerWorker: 2"), tmp_path)
    modelled = with_adopted_pools(settings)
    loader = modelled.workers["loader"]

    assert [*resident_pods(settings)] == []
    assert modelled.adopted == {}
    assert (loader.cpu, loader.memory, loader.max, loader.jobs_per_worker) == (2000, 4096, 12, 2)
    assert (loader.node_group, loader.source.queues, loader.safe_stop) == ("flexible", ("etl",), False)


@pytest.mark.parametrize(
    ("pool", "rule", "words"),
    [
        ("", "category: flexible", ("adopted.pool-category", "loader.category:", "worker", "found flexible")),
        ("", "replicas: 3", ("adopted.worker-count", "loader.replicas:")),
        ("min: 13", "", ("min.above-max", "loader.pool.min:", "12")),
        ("jobTakes: 1m", "", ("jobs-per-worker.half-given", "loader.pool.drainWithin:")),
        ("jobsPerWorker: 2, jobTakes: 1m, drainWithin: 5m", "", ("keys.not-both", "jobsPerWorker")),
        ("morning: { workers: 13, for: 30m }", "", ("morning.above-max", "12")),
        ("replicas: mine", "", ("choice.unknown", "loader.pool.replicas:")),
        (f"deployment: {'a' * 47}", "", ("adopted.deployment-name", "loader.pool.deployment:", "47 characters")),
        ("deployment: Loader", "", ("object-name.form", "loader.pool.deployment:")),
        ("image: a", "", ("key.unknown", "found the key 'image'")),
        ("checkpoints: { every: 5m }", "", ("key.unknown", "checkpoints")),
    ],
)
def test_a_contradiction_is_reported_at_its_key(pool: str, rule: str, words: tuple[str, ...], tmp_path: Path) -> None:
    assert any(told(problem).tells(*words) for problem in problems_of(with_loader(pool, rule=rule), tmp_path))


def test_a_rule_without_a_pool_has_a_category(tmp_path: Path) -> None:
    text = with_loader().replace(f"pool: {{ {SOURCE}, max: 12, longestJob: 1h }}", "replicas: 2")

    assert problem_of(text, tmp_path).tells(
        "key.missing", "ebbtide:adopted.loader.category:", "fixed, flexible or worker"
    )


def test_a_pool_that_is_wrong_does_not_make_the_category_missing(tmp_path: Path) -> None:
    assert problem_of(with_loader("max: many").replace("max: 12, ", ""), tmp_path).code == "type.whole-number"


def test_a_queue_has_one_pool_adopted_or_not(tmp_path: Path) -> None:
    assert problem_of(with_loader().replace("queues: [etl]", "queues: [etl, train]"), tmp_path).tells(
        "queue.shared", "ebbtide:adopted.loader.pool.source.queues[1]:", "pool 'train' serves"
    )


def test_a_deployment_has_one_pool(tmp_path: Path) -> None:
    other = (
        "  other: { namespace: etl, selector: { app: other }, cpu: 2, memory: 4Gi, "
        "pool: { source: { queues: [other] }, max: 2, longestJob: 1h, deployment: loader } }"
    )

    assert problem_of(with_loader(more=other), tmp_path).tells(
        "adopted.deployment-twice", "adopted.other.pool.deployment:", "found 'loader', which rule 'loader' has"
    )
    assert loaded(with_loader(more=other.replace("namespace: etl", "namespace: more")), tmp_path).adopted


def test_planned_work_names_a_rule_with_a_pool_and_stays_within_its_max(tmp_path: Path) -> None:
    night = 'overnight: [{ pool: loader, at: "02:30", for: 2h, workers: 13 }]'

    assert problem_of(with_loader(hours=night), tmp_path).tells("overnight.above-max", "12", "found 13")
    without = with_loader(hours=night.replace("13", "1"))
    without = without.replace(f"pool: {{ {SOURCE}, max: 12, longestJob: 1h }}", "category: worker, usually: 2")
    assert problem_of(without, tmp_path).tells("name.unknown", "found 'loader'")


def test_the_owners_tools_and_a_missing_safe_stop_are_warned_of(tmp_path: Path) -> None:
    def codes(pool: str) -> dict[str, str]:
        warnings = warnings_of(loaded(with_loader(pool), tmp_path))
        return {caution.code: caution.text for caution in warnings if caution.place.startswith("adopted.")}

    warned = codes("deployment: etl-loader")
    assert {*warned} == {"adopted.replicas-of-owner", "safe-stop.none"}
    for word in ("name: etl-loader", "/spec/replicas", "RespectIgnoreDifferences=true", "Flux", "Helm", "kept"):
        assert word in warned["adopted.replicas-of-owner"]
    assert codes("replicas: kept, safeStop: true") == {}
