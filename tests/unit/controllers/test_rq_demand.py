"""RQ's keys read from a real Redis, and what its faults become."""

import os
import signal
from collections.abc import Iterator
from typing import Any, cast

import pytest
from redis import Redis
from redis.exceptions import ResponseError
from rq import Queue

from controllers.adapters.redis_connection import MissingPassword, connect
from controllers.adapters.rq_demand import QUEUES_PER_CALL, RqDemand
from controllers.adapters.trust import Trust
from controllers.ports import Known, Reading, Unknown, Untrusted
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.vocabulary.controller_config import RedisEndpoint
from tests.builders_jobs import job
from tests.builders_redis import endpoint

pytestmark = pytest.mark.redis


@pytest.fixture
def reader(server: EmbeddedRedis) -> Iterator[Redis]:
    with connect(endpoint(server), {}) as connection:
        yield connection


def read(source: RqDemand, pool: str = "mail") -> Reading:
    return source.read([pool])[pool]


def known(source: RqDemand, pool: str = "mail") -> Known:
    seen = read(source, pool)
    assert isinstance(seen, Known)
    return seen


def idle_worker(client: Redis, host: str, *, name: str = "1", state: str = "idle") -> None:
    client.hset(f"rq:worker:{host}.{name}", mapping={"hostname": host, "state": state})
    client.sadd("rq:workers:mail", f"rq:worker:{host}.{name}")


def test_real_jobs_are_counted_with_their_age(client: Redis, reader: Redis) -> None:
    Queue("mail", connection=client).enqueue(job, 1)
    Queue("mail", connection=client).enqueue(job, 1)

    seen = known(RqDemand(reader, {"mail": ["mail"]}))

    assert seen.waiting == 2
    assert seen.oldest_wait is not None
    assert seen.oldest_wait.total_seconds() < 60


def test_a_waiting_job_without_a_time_has_no_age(client: Redis, reader: Redis) -> None:
    client.rpush("rq:queue:mail", "deleted-job")

    assert known(RqDemand(reader, {"mail": ["mail"]})).oldest_wait is None


def test_the_queues_of_a_pool_are_added_up(client: Redis, reader: Redis) -> None:
    for queue in ("mail", "slow-mail"):
        Queue(queue, connection=client).enqueue(job, 1)

    assert known(RqDemand(reader, {"mail": ["mail", "slow-mail"]})).waiting == 2


def test_an_entry_stuck_between_pop_and_start_is_a_janitors_work(client: Redis, reader: Redis) -> None:
    client.rpush("rq:queue:mail:intermediate", "stuck", "fresh")
    client.set("rq:queue:mail:intermediate:first_seen:stuck", int(client.time()[0]) - 90)

    seen = known(RqDemand(reader, {"mail": ["mail"]}))

    assert (seen.in_transit, seen.stale) == (1, 1)


def test_a_host_is_idle_only_if_all_its_workers_are(client: Redis, reader: Redis) -> None:
    idle_worker(client, "a")
    idle_worker(client, "b", name="1")
    idle_worker(client, "b", name="2", state="busy")
    client.hset("rq:worker:c.1", "last_heartbeat", "now")  # as after a loss of data: no state, no host
    client.sadd("rq:workers:mail", "rq:worker:c.1", "rq:worker:gone.1")

    assert known(RqDemand(reader, {"mail": ["mail"]})).idle == {"a"}


def test_more_queues_than_one_call_reads_are_all_there(client: Redis, reader: Redis) -> None:
    pools = {f"pool-{number}": [f"queue-{number}"] for number in range(QUEUES_PER_CALL * 2 + 1)}
    last = f"queue-{QUEUES_PER_CALL * 2}"
    client.rpush(f"rq:queue:{last}", "job")

    readings = RqDemand(reader, pools).read(list(pools))

    assert set(readings) == set(pools)
    assert readings[f"pool-{QUEUES_PER_CALL * 2}"] == Known(waiting=1, in_transit=0, running=0)


def test_a_key_of_the_wrong_type_blinds_only_its_own_pool(client: Redis, reader: Redis) -> None:
    client.set("rq:queue:mail", "not a list")
    client.rpush("rq:queue:train", "job")
    source = RqDemand(reader, {"mail": ["mail"], "train": ["train"]})

    readings = source.read(["mail", "train"])

    assert readings["train"] == Known(waiting=1, in_transit=0, running=0)
    mail = readings["mail"]
    assert isinstance(mail, Unknown)
    assert mail.why.startswith("queue mail could not be read: WRONGTYPE")


def test_a_lost_script_cache_is_filled_again(client: Redis, reader: Redis) -> None:
    source = RqDemand(reader, {"mail": ["mail"]})
    known(source)
    client.script_flush()

    assert known(source).waiting == 0


class OldRedis(Redis):
    """A server from before version 7."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        if args[0] == "EVALSHA_RO":
            raise ResponseError("unknown command 'EVALSHA_RO', with args beginning with: ")
        return cast("Any", super().execute_command(*args, **options))


def test_a_server_without_the_read_only_call_is_read_all_the_same(server: EmbeddedRedis, client: Redis) -> None:
    client.rpush("rq:queue:mail", "job")
    with OldRedis(host=server.host, port=server.port, decode_responses=True) as old:
        assert known(RqDemand(old, {"mail": ["mail"]})).waiting == 1


def test_suspended_workers_hold_the_pool(client: Redis, reader: Redis) -> None:
    client.set("rq:suspended", 1)

    assert read(RqDemand(reader, {"mail": ["mail"]})) == Unknown("the workers are suspended (`rq suspend`)")


def test_nothing_is_written_by_reading(client: Redis, reader: Redis) -> None:
    client.zadd("rq:wip:mail", {"stale:1": 5})
    before = client.dbsize(), client.zcard("rq:wip:mail")

    known(RqDemand(reader, {"mail": ["mail"]}))

    assert (client.dbsize(), client.zcard("rq:wip:mail")) == before


def test_a_reader_with_the_documented_rights_and_no_more_can_read(server: EmbeddedRedis, client: Redis) -> None:
    commands = "ping hello select info script|load evalsha_ro client|setinfo time exists llen lrange get lindex hget"
    client.acl_setuser(
        "reader",
        enabled=True,
        nopass=True,
        keys=["%R~rq:*"],
        commands=[f"+{name}" for name in f"{commands} smembers scard hmget zcount".split()],
    )
    rights = RedisEndpoint(host=server.host, port=server.port, username="reader", password_env="ANY")
    with connect(rights, {"ANY": "ignored"}) as connection:
        assert known(RqDemand(connection, {"mail": ["mail"]})).in_flight == 0
    client.acl_deluser("reader")


def test_a_replica_is_not_believed(server: EmbeddedRedis) -> None:
    with EmbeddedRedis() as other:
        with other.client() as link:
            link.execute_command("REPLICAOF", server.host, server.port)
        with connect(endpoint(other), {}) as reader:
            seen = read(RqDemand(reader, {"mail": ["mail"]}))

    assert seen == Unknown("this Redis is a replica, which may be stale: wanted the primary")


def test_a_dead_server_is_unknown_with_its_address() -> None:
    with EmbeddedRedis() as server, connect(endpoint(server), {}) as reader:
        source = RqDemand(reader, {"mail": ["mail"]})
        known(source)
        server.stop()

        seen = read(source)

    assert isinstance(seen, Unknown)
    assert seen.why.startswith("Redis cannot be reached")


def test_a_frozen_server_is_unknown_after_one_timeout_and_asks_about_tls() -> None:
    with EmbeddedRedis() as server, connect(endpoint(server), {}) as reader:
        source = RqDemand(reader, {"mail": ["mail"]})
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
            source = RqDemand(reader, {"mail": ["mail"]})
            known(source)
        with connect(endpoint(second), {}) as reader, second.client() as client:
            source._connection = reader
            assert isinstance(read(source), Untrusted)
            assert isinstance(read(source), Untrusted)
            idle_worker(client, "a")
            assert isinstance(read(source), Known)


def test_a_flush_is_untrusted(client: Redis, reader: Redis) -> None:
    Queue("mail", connection=client).enqueue(job, 1)
    idle_worker(client, "a", state="busy")
    source = RqDemand(reader, {"mail": ["mail"]}, trust=Trust())
    known(source)

    client.flushall()

    assert isinstance(read(source), Untrusted)


def test_a_missing_password_names_its_variable() -> None:
    with pytest.raises(MissingPassword, match="REDIS_PASSWORD"):
        connect(RedisEndpoint(host="redis", password_env="REDIS_PASSWORD"), {})
