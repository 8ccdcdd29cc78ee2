"""The section of Redis: keys of each kind, and what each requires of other sections."""

from pathlib import Path

import pytest

from ebbtide.settings.sections.redis import RedisKind
from tests.builders.settings import loaded, problem_of, shortest

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
        ":1: ebbtide:redisPassword: wanted the token of the cache: 16 to 128 letters, digits or "
        "! & # $ ^ < > -, found nothing; pulumi config set --secret ebbtide:redisPassword; until then write "
        "{ secure: PLACEHOLDER }"
    )


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("{ kind: elasticache, storage: 8Gi }", ("redis.key-of-another-kind", "redis.storage:")),
        ("{ kind: elasticache, tls: { secret: a } }", ("redis.key-of-another-kind", "redis.tls:")),
        ("{ nodeType: cache.t4g.small }", ("redis.key-of-another-kind", "redis.nodeType:")),
        ("{ replicas: 0 }", ("redis.key-of-another-kind", "redis.replicas:")),
        (
            '{ kind: url, url: "redis://cache.example", keepOnDestroy: true }',
            ("redis.key-of-another-kind", "redis.keepOnDestroy:"),
        ),
    ],
)
def test_a_key_that_would_do_nothing_is_refused(section: str, words: tuple[str, ...], tmp_path: Path) -> None:
    assert problem_of(redis(section + TOKEN), tmp_path).tells(*words)


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("{ kind: elasticach }", ("choice.unknown", "found 'elasticach'")),
        ("{ kind: elasticache, nodeType: t4g.small }", ("cache-node.type", "did you mean cache.t4g.small?")),
        (
            "{ kind: elasticache, nodeType: cache.foo }",
            ("cache-node.type", "found 'cache.foo'", "(for example cache.t4g.small)"),
        ),
        ("{ kind: elasticache, replicas: 6 }", ("number.too-large", "found 6", "5")),
        ("{ memory: 8Gi }", ("redis-storage.too-small", "16Gi")),
        ("{ storage: 8 }", ("memory.too-small",)),
        ("{ tls: { secret: Redis_TLS } }", ("redis-secret.name",)),
        ("{ controller: { user: reader, secret: redis-reader } }", ("redis.key-of-another-kind", "kind: url")),
        (
            "{ kind: url, url: 'redis://r', controller: { user: reader, secret: ebbtide-redis } }",
            ("redis-secret.ours",),
        ),
        (
            "{ kind: url, url: 'redis://r', controller: { user: 'a b', secret: reader } }",
            ("redis-user.form", "found 'a b'"),
        ),
        ("{ tls: { secret: ebbtide-redis } }", ("redis-secret.ours",)),
        ("{ tls: redis-tls }", ("type.mapping", "found 'redis-tls'")),
        ('{ kind: url, url: "redis://cache.example", tls: { secret: ca } }', ("redis-url.tls",)),
        ("{ storageClass: gp3, keepOnDestroy: true }", ("keys.not-both",)),
        *(
            (f'{{ kind: url, url: "redis://{host}:6379/0" }}', ("redis-url.local", "in a pod this is the pod itself"))
            for host in (
                "localhost",
                "LOCALHOST",
                "redis.localhost",
                "127.0.0.1",
                "127.8.9.1",
                "0.0.0.0",
                "[::1]",
                "LOCALHOST.",
                "127.1",
            )
        ),
        *(
            (f'{{ kind: url, url: "rediss://{host}" }}', ("redis-url.cluster-mode", "CROSSSLOT", "rediss://master."))
            for host in (
                "clustercfg.jobs.abc123.use1.cache.amazonaws.com:6379",
                "jobs.abc123.clustercfg.use1.cache.amazonaws.com:6379",
                "jobs-abc123.serverless.use1.cache.amazonaws.com",
                "clustercfg.jobs.abc123.memorydb.us-east-1.amazonaws.com",
                "clustercfg.jobs.abc123.cnn1.cache.amazonaws.com.cn",
            )
        ),
    ],
)
def test_a_wrong_value_is_told_with_what_is_wanted(section: str, words: tuple[str, ...], tmp_path: Path) -> None:
    assert problem_of(redis(section + TOKEN), tmp_path).tells(*words)


@pytest.mark.parametrize("name", ["cache.foo", "cache.cache.foo", "cache", "foo", "Cache.t4g.small"])
def test_a_wrong_node_type_gets_no_advice_that_is_wrong_too(name: str, tmp_path: Path) -> None:
    assert "did you mean" not in problem_of(redis(f"{{ kind: elasticache, nodeType: {name} }}" + TOKEN), tmp_path)


def test_a_redis_that_fits_no_fixed_node_would_wait_for_ever(tmp_path: Path) -> None:
    problem = problem_of(redis("{ memory: 64Gi, storage: 128Gi }"), tmp_path)

    assert problem.tells("pod.too-large", "ebbtide:redis.memory:")
    assert problem.tells("pod.too-large", "found 0.5 CPU, 64Gi")
