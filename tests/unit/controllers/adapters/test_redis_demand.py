"""RQ's keys read from a real Redis, and what its faults become."""

import os
import signal
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise, product
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import Redis
from redis.connection import Connection
from rq import Queue, Worker

from controllers.adapters.redis_connection import MissingPassword, connect
from controllers.adapters.redis_demand import LONGEST_PAUSE, QUEUES_PER_CALL, RedisDemand, UnknownSource, backend_of
from controllers.adapters.rq_backend import RQ
from controllers.adapters.trust import Trust
from controllers.ports import Known, Reading, Unknown, Untrusted
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.vocabulary.controller_config import RedisEndpoint
from tests.builders.jobs import job
from tests.builders.redis import endpoint
from tests.redis_faults.rights import PASSWORD, make_user

pytestmark = pytest.mark.redis


@pytest.fixture
def reader(server: EmbeddedRedis) -> Iterator[Redis]:
    with connect(endpoint(server), {}) as connection:
        yield connection


def read(source: RedisDemand, pool: str = "mail") -> Reading:
    return source.read([pool])[pool]


def known(source: RedisDemand, pool: str = "mail") -> Known:
    seen = read(source, pool)
    assert isinstance(seen, Known)
    return seen


def idle_worker(client: Redis, host: str, *, name: str = "1", state: str = "idle") -> None:
    client.hset(f"rq:worker:{host}.{name}", mapping={"hostname": host, "state": state})
    client.sadd("rq:workers:mail", f"rq:worker:{host}.{name}")


def test_real_jobs_are_counted_with_their_age(client: Redis, reader: Redis) -> None:
    Queue("mail", connection=client).enqueue(job, 1)
    Queue("mail", connection=client).enqueue(job, 1)

    seen = known(RedisDemand(reader, RQ, {"mail": ["mail"]}))

    assert seen.waiting == 2
    assert seen.oldest_wait is not None
    assert seen.oldest_wait.total_seconds() < 60


def test_a_waiting_job_without_a_time_has_no_age(client: Redis, reader: Redis) -> None:
    client.rpush("rq:queue:mail", "deleted-job")

    assert known(RedisDemand(reader, RQ, {"mail": ["mail"]})).oldest_wait is None


def test_the_queues_of_a_pool_are_added_up(client: Redis, reader: Redis) -> None:
    for queue in ("mail", "slow-mail"):
        Queue(queue, connection=client).enqueue(job, 1)

    assert known(RedisDemand(reader, RQ, {"mail": ["mail", "slow-mail"]})).waiting == 2


def test_an_entry_stuck_between_pop_and_start_is_a_janitors_work(client: Redis, reader: Redis) -> None:
    client.rpush("rq:queue:mail:intermediate", "stuck", "fresh")
    client.set("rq:queue:mail:intermediate:first_seen:stuck", int(client.time()[0]) - 90)

    seen = known(RedisDemand(reader, RQ, {"mail": ["mail"]}))

    assert (seen.in_transit, seen.stale) == (1, 1)


def test_a_scheduled_job_long_past_its_time_is_a_janitors_work(client: Redis, reader: Redis) -> None:
    now = int(client.time()[0])
    due = {"past": now - 40, "just now": now - 20, "soon": now + 30, "tomorrow": now + 86_400}
    client.zadd("rq:scheduled:mail", due)

    seen = known(RedisDemand(reader, RQ, {"mail": ["mail"]}))

    assert (seen.stale, seen.due_soon, seen.in_flight) == (1, 2, 0)


def test_a_job_left_between_its_dependencies_and_the_list_is_a_janitors_work(client: Redis, reader: Redis) -> None:
    now = int(client.time()[0])
    client.zadd("rq:ready:mail", {"left": now - 40, "on its way": now - 1})

    seen = known(RedisDemand(reader, RQ, {"mail": ["mail"]}))

    assert (seen.stale, seen.in_flight) == (1, 0)


def counts(source: RedisDemand) -> tuple[int, int, int, int]:
    seen = known(source)
    return seen.waiting, seen.in_transit, seen.running, seen.stale


def test_a_job_that_starts_is_one_job_at_each_of_rqs_steps(client: Redis, reader: Redis) -> None:
    source, worker = RedisDemand(reader, RQ, {"mail": ["mail"]}), Worker(["mail"], connection=client)
    Queue("mail", connection=client).enqueue(job, 1)
    popped = Queue.dequeue_any(worker.queues, None, connection=client)
    assert popped is not None
    seen = [counts(source)]

    worker.prepare_execution(popped[0])  # in `rq:wip` now, and in the intermediate list still
    seen.append(counts(source))
    worker.prepare_job_execution(popped[0], remove_from_intermediate_queue=True)
    seen.append(counts(source))

    assert seen == [(0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 1, 0)]


@pytest.mark.parametrize("ago", [91, 149], ids=["deadline just past", "about to be forgotten"])
def test_a_job_popped_again_after_its_worker_died_counts_though_its_first_start_is_known(
    client: Redis, reader: Redis, ago: int
) -> None:
    now = int(client.time()[0])
    client.rpush("rq:queue:mail:intermediate", "again")
    client.zadd("rq:executions:again", {"first": now - ago + 90 + 60})  # as RQ writes it, 90 s being its patience

    assert counts(RedisDemand(reader, RQ, {"mail": ["mail"]})) == (0, 1, 0, 0)


def test_a_worker_that_stands_still_as_its_job_starts_leaves_one_job_that_counts(client: Redis, reader: Redis) -> None:
    """Its deadline passes, it comes back: nothing may count twice, and nothing may be overlooked."""
    source, now = RedisDemand(reader, RQ, {"mail": ["mail"]}), int(client.time()[0])
    client.rpush("rq:queue:mail:intermediate", "slow")
    client.set("rq:queue:mail:intermediate:first_seen:slow", now - 90)
    client.zadd("rq:wip:mail", {"slow:1": now - 5})
    client.zadd("rq:executions:slow", {"1": now + 55})
    late = counts(source)

    client.zadd("rq:wip:mail", {"slow:1": now + 90})
    client.zadd("rq:executions:slow", {"1": now + 150})

    assert late == (0, 0, 0, 2)  # a janitor's work, by both signs
    assert counts(source) == (0, 0, 1, 0)


def test_a_host_is_idle_only_if_all_its_workers_are(client: Redis, reader: Redis) -> None:
    idle_worker(client, "a")
    idle_worker(client, "b", name="1")
    idle_worker(client, "b", name="2", state="busy")
    client.hset("rq:worker:c.1", "last_heartbeat", "now")  # as after a loss of data: no state, no host
    client.sadd("rq:workers:mail", "rq:worker:c.1", "rq:worker:gone.1")

    assert known(RedisDemand(reader, RQ, {"mail": ["mail"]})).idle == {"a"}


def test_more_queues_than_one_call_reads_are_all_there(client: Redis, reader: Redis) -> None:
    pools = {f"pool-{number}": [f"queue-{number}"] for number in range(QUEUES_PER_CALL * 2 + 1)}
    last = f"queue-{QUEUES_PER_CALL * 2}"
    client.rpush(f"rq:queue:{last}", "job")

    readings = RedisDemand(reader, RQ, pools).read(list(pools))

    assert set(readings) == set(pools)
    assert readings[f"pool-{QUEUES_PER_CALL * 2}"] == Known(waiting=1, in_transit=0, running=0)


def test_a_key_of_the_wrong_type_blinds_only_its_own_pool(client: Redis, reader: Redis) -> None:
    client.set("rq:queue:mail", "not a list")
    client.rpush("rq:queue:train", "job")
    source = RedisDemand(reader, RQ, {"mail": ["mail"], "train": ["train"]})

    readings = source.read(["mail", "train"])

    assert readings["train"] == Known(waiting=1, in_transit=0, running=0)
    mail = readings["mail"]
    assert isinstance(mail, Unknown)
    assert mail.why.startswith("queue mail could not be read: WRONGTYPE")


def test_a_lost_script_cache_is_filled_again(client: Redis, reader: Redis) -> None:
    source = RedisDemand(reader, RQ, {"mail": ["mail"]})
    known(source)
    client.script_flush()

    assert known(source).waiting == 0


def test_a_server_without_the_read_only_call_is_read_all_the_same() -> None:
    """As before version 7: the command is renamed away."""
    with EmbeddedRedis(options=["--rename-command", "EVALSHA_RO", ""]) as old, old.client() as client:
        client.rpush("rq:queue:mail", "job")
        with Redis(host=old.host, port=old.port, decode_responses=True) as reader:
            assert known(RedisDemand(reader, RQ, {"mail": ["mail"]})).waiting == 1


def test_suspended_workers_hold_the_pool(client: Redis, reader: Redis) -> None:
    client.set("rq:suspended", 1)

    assert read(RedisDemand(reader, RQ, {"mail": ["mail"]})) == Unknown("the workers are suspended (`rq suspend`)")


def test_nothing_is_written_by_reading(client: Redis, reader: Redis) -> None:
    client.zadd("rq:wip:mail", {"stale:1": 5})
    before = client.dbsize(), client.zcard("rq:wip:mail")

    known(RedisDemand(reader, RQ, {"mail": ["mail"]}))

    assert (client.dbsize(), client.zcard("rq:wip:mail")) == before


def test_a_reader_with_the_documented_rights_and_no_more_can_read_and_be_told(
    server: EmbeddedRedis, client: Redis
) -> None:
    make_user(client, "reader", "rq", "mail")
    Queue("mail", connection=client).enqueue(job, 1)
    idle_worker(client, "a")
    rights = RedisEndpoint(host=server.host, port=server.port, username="reader", password_env="ANY")
    with connect(rights, {"ANY": PASSWORD}) as connection:
        assert known(RedisDemand(connection, RQ, {"mail": ["mail"]})).in_flight == 1
        connection.execute_command("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "rq:queue:")
    client.acl_deluser("reader")


def test_a_replica_is_not_believed(server: EmbeddedRedis) -> None:
    with EmbeddedRedis() as other:
        with other.client() as link:
            link.execute_command("REPLICAOF", server.host, server.port)
        with connect(endpoint(other), {}) as reader:
            seen = read(RedisDemand(reader, RQ, {"mail": ["mail"]}))

    assert seen == Unknown("this Redis is a replica, which may be stale: wanted the primary")


def test_a_dead_server_is_unknown_with_its_address() -> None:
    with EmbeddedRedis() as server, connect(endpoint(server), {}) as reader:
        source = RedisDemand(reader, RQ, {"mail": ["mail"]})
        known(source)
        server.stop()

        seen = read(source)

    assert isinstance(seen, Unknown)
    assert seen.why.startswith("Redis cannot be reached")


def test_a_frozen_server_is_unknown_after_one_timeout_and_asks_about_tls() -> None:
    with EmbeddedRedis() as server, connect(endpoint(server), {}) as reader:
        source = RedisDemand(reader, RQ, {"mail": ["mail"]})
        known(source)
        assert server.pid is not None
        os.kill(server.pid, signal.SIGSTOP)

        seen = read(source)

    assert isinstance(seen, Unknown)
    assert "TLS" in seen.why


def test_a_restart_is_untrusted_until_the_hosts_seen_before_are_idle() -> None:
    with EmbeddedRedis() as first, EmbeddedRedis() as second:
        with first.client() as client:
            idle_worker(client, "a", state="busy")
        with connect(endpoint(first), {}) as reader:
            source = RedisDemand(reader, RQ, {"mail": ["mail"]})
            known(source)
        with connect(endpoint(second), {}) as reader, second.client() as client:
            source.connection = reader
            assert isinstance(read(source), Untrusted)
            assert isinstance(read(source), Untrusted)
            idle_worker(client, "a")
            assert isinstance(read(source), Known)


def test_a_flush_is_untrusted(client: Redis, reader: Redis) -> None:
    Queue("mail", connection=client).enqueue(job, 1)
    idle_worker(client, "a", state="busy")
    source = RedisDemand(reader, RQ, {"mail": ["mail"]}, trust=Trust())
    known(source)

    client.flushall()

    assert isinstance(read(source), Untrusted)


def test_a_missing_password_names_its_variable() -> None:
    with pytest.raises(MissingPassword, match="REDIS_PASSWORD"):
        connect(RedisEndpoint(host="redis", password_env="REDIS_PASSWORD"), {})


def test_a_queue_that_was_never_used_is_distinguished_from_an_empty_one(client: Redis, reader: Redis) -> None:
    queue = Queue("mail", connection=client)
    queue.enqueue(job, 1)
    queue.empty()
    source = RedisDemand(reader, RQ, {"mail": ["mail"], "typo": ["mial"], "both": ["mail", "mial"]})

    readings = source.read(["mail", "typo", "both"])

    assert [cast("Known", readings[pool]).seen_before for pool in ("mail", "typo", "both")] == [True, False, True]


def test_a_broken_queue_of_a_pool_hides_none_of_its_silence_behind_the_other(client: Redis, reader: Redis) -> None:
    client.set("rq:queue:broken", "not a list")
    Queue("mail", connection=client).enqueue(job, 1)

    assert isinstance(read(RedisDemand(reader, RQ, {"mail": ["mail", "broken"]})), Unknown)


def test_every_pool_is_doubted_once_after_a_restart_even_those_that_hold_nothing() -> None:
    with EmbeddedRedis() as first, EmbeddedRedis() as second:
        with connect(endpoint(first), {}) as reader:
            source = RedisDemand(reader, RQ, {"mail": ["mail"], "train": ["train"]})
            source.read(["mail", "train"])
        with connect(endpoint(second), {}) as reader:
            source.connection = reader
            after = source.read(["mail", "train"])
            later = source.read(["mail", "train"])

    assert [type(reading) for reading in after.values()] == [Untrusted, Untrusted]
    assert [type(reading) for reading in later.values()] == [Known, Known]


def test_each_reading_reports_the_servers_time(client: Redis, reader: Redis) -> None:
    told: list[datetime] = []
    source = RedisDemand(reader, RQ, {"mail": ["mail"]}, on_time=told.append)
    read(source)
    read(source)

    seconds, _ = client.time()
    assert len(told) == 2
    assert abs(told[-1].timestamp() - seconds) <= 2


def test_after_trouble_a_dead_server_is_left_alone_for_a_while() -> None:
    now = 100.0
    with EmbeddedRedis() as server:
        port = server.port
        with connect(RedisEndpoint(host="127.0.0.1", port=port), {}) as reader:
            source = RedisDemand(reader, RQ, {"mail": ["mail"]}, monotonic=lambda: now)
            server.stop()
            assert isinstance(read(source), Unknown)
            with EmbeddedRedis(port):
                source._trouble = (now + 1.0, "resting")
                assert read(source) == Unknown("resting")
                now += LONGEST_PAUSE
                assert isinstance(read(source), Known)


def test_pools_of_an_unreadable_kind_are_refused_with_the_reason() -> None:
    with pytest.raises(UnknownSource, match="huey: a running task is in no key"):
        backend_of("huey")
    with pytest.raises(UnknownSource, match="this release reads"):
        backend_of("kafka")


@given(sizes=st.lists(st.integers(1, 400), min_size=1, max_size=30))
def test_every_queue_is_asked_for_once_and_no_pool_is_split(sizes: list[int]) -> None:
    queues_of = {f"p{n}": [f"p{n}-{queue}" for queue in range(size)] for n, size in enumerate(sizes)}
    source = RedisDemand(Redis(), RQ, queues_of)

    chunks = list(source._chunks(tuple(queues_of), Connection()))

    assert [owner for owners, _ in chunks for owner in owners] == [pool for pool in queues_of for _ in queues_of[pool]]
    assert all(len(owners) <= QUEUES_PER_CALL or len(set(owners)) == 1 for owners, _ in chunks)
    assert not any(set(one[0]) & set(other[0]) for one, other in pairwise(chunks))


def test_every_mixture_of_a_queues_keys_is_read_in_full(client: Redis, reader: Redis) -> None:
    soon = int(client.time()[0]) + 30
    expected: dict[str, tuple[int, int, int, int, frozenset[str]]] = {}
    for listed, popped, running, due, staffed in product((0, 1), repeat=5):
        name = f"q{listed}{popped}{running}{due}{staffed}"
        if listed:
            client.rpush(f"rq:queue:{name}", "job", "job")
        if popped:
            client.rpush(f"rq:queue:{name}:intermediate", "job")
        if running:
            client.zadd(f"rq:wip:{name}", {"job:1": soon + 60})
        if due:
            client.zadd(f"rq:scheduled:{name}", {"job": soon})
        if staffed:
            client.hset(f"rq:worker:{name}", mapping={"hostname": name, "state": "idle"})
            client.sadd(f"rq:workers:{name}", f"rq:worker:{name}")
        expected[name] = (2 * listed, popped, running, due, frozenset([name] if staffed else []))

    readings = RedisDemand(reader, RQ, {name: (name,) for name in expected}).read(tuple(expected))

    seen = {name: cast("Known", reading) for name, reading in readings.items()}
    assert expected == {
        name: (known.waiting, known.in_transit, known.running, known.due_soon, known.idle)
        for name, known in seen.items()
    }


def test_reading_again_and_again_takes_one_connection(client: Redis, reader: Redis) -> None:
    source = RedisDemand(reader, RQ, {"mail": ["mail"]})
    read(source)
    before = client.info("clients")["connected_clients"]
    for _ in range(5):
        client.script_flush()
        read(source)

    assert client.info("clients")["connected_clients"] == before
