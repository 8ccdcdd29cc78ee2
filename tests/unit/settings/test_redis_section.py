"""The section of Redis: which keys belong to which kind, and what the rest of the file must say for it."""

from pathlib import Path

import pytest

from ebbtide.settings.redis import RedisKind
from tests.builders_settings import loaded, problem_of, shortest

TOKEN = "\nebbtide:redisPassword: { secure: AAA }"


def redis(section: str) -> str:
    return shortest(more=f"ebbtide:redis: {section}")


def test_the_shortest_file_has_a_redis_of_its_own(tmp_path: Path) -> None:
    section = loaded(shortest(), tmp_path).redis

    assert (section.kind, section.memory_mib, section.storage_mib) == (RedisKind.IN_CLUSTER, 2048, 8192)
    assert section.kept


def test_a_cache_of_aws_needs_its_kind_and_a_token_alone(tmp_path: Path) -> None:
    section = loaded(redis("{ kind: elasticache }" + TOKEN), tmp_path).redis

    assert (section.kind, section.standbys, section.kept) == (RedisKind.ELASTICACHE, 1, True)


def test_a_cache_of_aws_without_a_token_says_how_to_set_one(tmp_path: Path) -> None:
    assert problem_of(redis("{ kind: elasticache }"), tmp_path) == (
        ": ebbtide:redisPassword: wanted the token that the cache asks for: 16 to 128 letters, digits or "
        "! & # $ ^ < > -, found nothing; pulumi config set --secret ebbtide:redisPassword"
    )


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("{ kind: elasticache, storage: 8Gi }", "redis.storage: wanted no storage with kind elasticache"),
        ("{ kind: elasticache, tls: { secret: a } }", "redis.tls: wanted no tls with kind elasticache"),
        ("{ nodeType: cache.t4g.small }", "redis.nodeType: wanted no nodeType with kind in-cluster"),
        ("{ replicas: 0 }", "redis.replicas: wanted no replicas with kind in-cluster"),
        (
            '{ kind: url, url: "redis://cache.example", keepOnDestroy: true }',
            "redis.keepOnDestroy: wanted no keepOnDestroy with kind url",
        ),
    ],
)
def test_a_key_that_would_do_nothing_is_refused(section: str, said: str, tmp_path: Path) -> None:
    assert said in problem_of(redis(section + TOKEN), tmp_path)


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("{ kind: elasticach }", "wanted in-cluster or elasticache or url, found 'elasticach'"),
        ("{ kind: elasticache, nodeType: t4g.small }", "did you mean cache.t4g.small?"),
        (
            "{ kind: elasticache, nodeType: cache.foo }",
            "wanted a node type of ElastiCache, found 'cache.foo' (for example cache.t4g.small)",
        ),
        ("{ kind: elasticache, replicas: 6 }", "wanted a number of at most 5, found 6"),
        ("{ memory: 8Gi }", "wanted at least twice the memory, 16Gi"),
        ("{ storage: 8 }", "without a unit it counts bytes"),
        ("{ tls: { secret: Redis_TLS } }", "wanted the name of a Secret"),
        ("{ tls: { secret: ebbtide-redis } }", "Ebbtide writes that one itself"),
        ("{ tls: redis-tls }", "found 'redis-tls'"),
        ('{ kind: url, url: "redis://cache.example", tls: { secret: ca } }', "wanted a rediss:// address beside tls"),
        ("{ storageClass: gp3, keepOnDestroy: true }", "keepOnDestroy or storageClass, not both"),
    ],
)
def test_a_wrong_value_is_told_with_what_is_wanted(section: str, said: str, tmp_path: Path) -> None:
    assert said in problem_of(redis(section + TOKEN), tmp_path)


@pytest.mark.parametrize("name", ["cache.foo", "cache.cache.foo", "cache", "foo", "Cache.t4g.small"])
def test_a_wrong_node_type_gets_no_advice_that_is_wrong_too(name: str, tmp_path: Path) -> None:
    assert "did you mean" not in problem_of(redis(f"{{ kind: elasticache, nodeType: {name} }}" + TOKEN), tmp_path)


def test_a_redis_that_fits_no_fixed_node_would_wait_for_ever(tmp_path: Path) -> None:
    told = problem_of(redis("{ memory: 64Gi, storage: 128Gi }"), tmp_path)

    assert "ebbtide:redis.memory: wanted a pod that fits a fixed node" in told
    assert "found 0.5 CPU, 64Gi" in told
