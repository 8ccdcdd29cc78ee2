"""What faults of a real server become: a reading that holds, and never a false empty one."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from redis.exceptions import OutOfMemoryError, RedisError

from controllers.adapters.redis_connection import connect
from controllers.adapters.redis_demand import RedisDemand, demand_sources
from controllers.adapters.rq_backend import RQ
from controllers.adapters.wakers import TrackingListener
from controllers.ports import Known, Reading, Unknown, Untrusted
from ebbtide.demo.embedded import HOST
from ebbtide.vocabulary.controller_config import RedisEndpoint
from tests.builders.redis import wait_until
from tests.redis_faults.redis_server import Server, certificates, config_for, redis_server, sentinel

pytestmark = pytest.mark.redis_server


@pytest.fixture
def primary(tmp_path: Path) -> Iterator[Server]:
    with redis_server(tmp_path) as server:
        yield server


def at(server: Server) -> RedisEndpoint:
    return RedisEndpoint(host=HOST, port=server.port)


def read(source: RedisDemand) -> Reading:
    return source.read(("mail",))["mail"]


def reader(where: RedisEndpoint) -> RedisDemand:
    return RedisDemand(connect(where, {}), RQ, {"mail": ("mail",)})


def test_an_old_primary_that_returns_empty_is_not_believed(tmp_path: Path, primary: Server) -> None:
    with primary.client() as client:
        client.rpush("rq:queue:mail", "job")
    source = reader(at(primary))
    assert isinstance(read(source), Known)
    primary.process.kill()
    primary.process.wait()
    assert isinstance(read(source), Unknown)
    seen: list[Reading] = []
    with redis_server(tmp_path, port=primary.port):
        wait_until(lambda: seen.append(read(source)) or not isinstance(seen[-1], Unknown), "the restarted server")

    assert isinstance(seen[-1], Untrusted)
    assert seen[-1].seen.in_flight == 0


def test_a_frozen_server_is_unknown_and_read_again_once_it_thaws(primary: Server) -> None:
    source = reader(at(primary))
    with primary.client() as client:
        client.rpush("rq:queue:mail", "job")
    read(source)
    os.kill(primary.process.pid, signal.SIGSTOP)
    frozen = read(source)
    os.kill(primary.process.pid, signal.SIGCONT)

    assert isinstance(frozen, Unknown)
    wait_until(lambda: read(source) == Known(waiting=1, in_transit=0, running=0), "a reading after the thaw")


def test_a_full_server_is_still_read(primary: Server) -> None:
    with primary.client() as client:
        client.rpush("rq:queue:mail", "job")
        client.config_set("maxmemory", 1)
        with pytest.raises(OutOfMemoryError):
            client.rpush("rq:queue:mail", "one more")

    assert read(reader(at(primary))) == Known(waiting=1, in_transit=0, running=0)


def test_a_password_set_meanwhile_holds_at_the_next_connection(primary: Server) -> None:
    source = reader(at(primary))
    read(source)
    with primary.client() as client:
        client.config_set("requirepass", "secret")
        client.client_kill_filter(_type="normal", skipme=True)
    seen = read(source)

    assert isinstance(seen, Unknown)
    assert seen.why.startswith("Redis refused the user name or password") or "cannot be reached" in seen.why
    wait_until(lambda: "refused the user name" in str(read(source)), "the refusal")


def test_a_primary_that_is_made_a_replica_is_held_within_one_reading(tmp_path: Path, primary: Server) -> None:
    source = reader(at(primary))
    assert isinstance(read(source), Known)
    with redis_server(tmp_path) as other, primary.client() as client:
        client.execute_command("REPLICAOF", HOST, other.port)
        wait_until(lambda: isinstance(read(source), Unknown), "the doubt")
        assert "is a replica" in str(read(source))


def test_after_a_failover_the_new_primary_is_found_and_not_trusted_at_once(tmp_path: Path, primary: Server) -> None:
    with redis_server(tmp_path, "--replicaof", HOST, str(primary.port)) as replica:
        with primary.client() as client, replica.client() as copy:
            client.rpush("rq:queue:mail", "job")
            wait_until(lambda: copy.llen("rq:queue:mail") == 1, "the replica's copy")
        with sentinel(tmp_path, primary.port) as port:
            where = RedisEndpoint(host="", sentinels=(f"{HOST}:{port}",), sentinel_service="jobs")
            source = reader(where)
            hints: list[int] = []
            listener = TrackingListener(lambda: connect(where, {}), ("rq:queue:",), lambda: hints.append(1))
            listener.start()
            wait_until(lambda: isinstance(read(source), Known) and listener.mode() == "tracking", "the first primary")
            wait_until(lambda: _knows_replica(port), "Sentinel's finding the replica")
            primary.process.kill()
            primary.process.wait()
            seen: list[Reading] = []
            wait_until(lambda: seen.append(read(source)) or isinstance(seen[-1], Untrusted), "the new primary")
            wait_until(lambda: seen.append(read(source)) or isinstance(seen[-1], Known), "trust in it")
            wait_until(lambda: listener.mode() == "tracking", "the listener's new connection")
            before = len(hints)
            with replica.client() as client:
                client.rpush("rq:queue:mail", "another")
            wait_until(lambda: len(hints) > before, "news from the new primary")
            listener.close()

    first_untrusted = next(number for number, reading in enumerate(seen) if isinstance(reading, Untrusted))
    assert all(isinstance(reading, Unknown) for reading in seen[:first_untrusted])
    assert seen[-1] == Known(waiting=1, in_transit=0, running=0)


def test_sentinels_that_do_not_know_the_service_are_named(tmp_path: Path, primary: Server) -> None:
    with sentinel(tmp_path, primary.port) as port:
        where = RedisEndpoint(host="", sentinels=(f"{HOST}:{port}",), sentinel_service="typo")
        seen = read(reader(where))

    assert isinstance(seen, Unknown)
    assert seen.why.startswith("no Sentinel knows a primary")


def test_queues_are_read_and_watched_over_tls(tmp_path: Path) -> None:
    issued = certificates(tmp_path / "issued", "DNS:localhost")
    with redis_server(tmp_path, certificates=issued) as server:
        where = RedisEndpoint(host="localhost", port=server.port, tls=True, ca_file=str(issued.authority))
        hints: list[int] = []
        listener = TrackingListener(lambda: connect(where, {}), ("rq:queue:",), lambda: hints.append(1))
        listener.start()
        wait_until(lambda: listener.mode() == "tracking", "the listener")
        before = len(hints)
        with server.client() as client:
            client.rpush("rq:queue:mail", "job")
        wait_until(lambda: len(hints) > before, "the news")
        listener.close()
        demand = demand_sources(config_for(where), lambda: connect(where, {}))

        assert demand.read(("mail",)) == {"mail": Known(waiting=1, in_transit=0, running=0)}


def _knows_replica(port: int) -> bool:
    with connect(RedisEndpoint(host=HOST, port=port), {}) as client:
        try:
            return cast("list[object]", client.execute_command("SENTINEL", "REPLICAS", "jobs")) != []
        except RedisError:
            return False
