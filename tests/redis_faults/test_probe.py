"""What the start-up probe says of wrong connections, word for word where an operator reads it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from redis import Redis

from controllers.adapters.probe import probe
from ebbtide.demo.embedded import free_port
from ebbtide.vocabulary.controller_config import RedisEndpoint
from tests.redis_faults.redis_server import Certificates, Server, certificates, config_for, redis_server
from tests.redis_faults.rights import rule

pytestmark = pytest.mark.redis_server


RIGHTS = rule("reader").replace("KEYS", "")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("redis")


@pytest.fixture(scope="module")
def issued(folder: Path) -> Certificates:
    return certificates(folder / "issued", "DNS:localhost,IP:127.0.0.1")


@pytest.fixture(scope="module")
def tls(folder: Path, issued: Certificates) -> Iterator[Server]:
    with redis_server(folder, certificates=issued) as server:
        yield server


@pytest.fixture(scope="module")
def plain(folder: Path) -> Iterator[Server]:
    with redis_server(folder) as server, server.client() as client:
        client.sadd("rq:queues", "rq:queue:mail")
        yield server


def at(server: Server, **more: object) -> RedisEndpoint:
    return replace(RedisEndpoint(host="127.0.0.1", port=server.port), **more)


def only(faults: list[str]) -> str:
    assert len(faults) == 1, faults
    return faults[0]


def test_nothing_is_said_of_a_right_connection(plain: Server) -> None:
    assert probe(config_for(at(plain)), {}) == []


def test_nothing_is_said_of_a_trusted_certificate_either(tls: Server, issued: Certificates) -> None:
    with tls.client() as client:
        client.sadd("rq:queues", "rq:queue:mail")
    for host in ("localhost", "127.0.0.1"):
        where = at(tls, host=host, tls=True, ca_file=str(issued.authority))
        assert probe(config_for(where), {}) == []


def test_a_tls_port_spoken_to_without_tls(tls: Server) -> None:
    told = only(probe(config_for(at(tls)), {}))

    assert told == f"port {tls.port} of 127.0.0.1 speaks TLS and was spoken to without: use rediss://"


def test_a_plain_port_spoken_to_with_tls(plain: Server) -> None:
    told = only(probe(config_for(at(plain, tls=True)), {}))

    assert told.startswith(f"port {plain.port} of 127.0.0.1 does not speak TLS and was spoken to with it")


def test_a_certificate_that_is_not_trusted(tls: Server) -> None:
    assert "certificate that is not trusted" in only(probe(config_for(at(tls, tls=True)), {}))


def test_a_certificate_of_another_authority(tls: Server, folder: Path) -> None:
    other = certificates(folder / "other", "DNS:localhost")
    where = at(tls, tls=True, ca_file=str(other.authority))

    assert "certificate that is not trusted" in only(probe(config_for(where), {}))


def test_a_certificate_for_another_host_name(folder: Path) -> None:
    elsewhere = certificates(folder / "elsewhere", "DNS:redis.example.com")
    with redis_server(folder, certificates=elsewhere) as server:
        for host in ("localhost", "127.0.0.1"):
            where = at(server, host=host, tls=True, ca_file=str(elsewhere.authority))
            assert "certificate for another host name" in only(probe(config_for(where), {}))


def test_a_password_that_is_missing_wrong_or_unset(folder: Path) -> None:
    with redis_server(folder, "--requirepass", "right") as server:
        assert "wants a password of user default" in only(probe(config_for(at(server)), {}))
        where = at(server, password_env="REDIS_PASSWORD")
        assert "does REDIS_PASSWORD hold the right one?" in only(probe(config_for(where), {"REDIS_PASSWORD": "wrong"}))
        assert "set the variable REDIS_PASSWORD" in only(probe(config_for(where), {}))
        assert "wrong-secret" not in only(probe(config_for(where), {"REDIS_PASSWORD": "wrong-secret"}))


@pytest.mark.parametrize("command", ["evalsha_ro", "smembers", "zcount", "info", "script|load"])
def test_a_refused_command_is_named(plain: Server, command: str) -> None:
    with plain.client() as client:
        client.zadd("rq:wip:mail", {"job:1": 4_000_000_000})
        user(client, f"{RIGHTS} -{command}")
        told = probe(config_for(at(plain, username="reader", password_env="ANY")), {"ANY": "secret"})
        client.delete("rq:wip:mail")

    assert command in " ".join(told).lower()


def test_a_refused_key_is_told_with_its_queue(plain: Server) -> None:
    with plain.client() as client:
        user(client, RIGHTS, keys="%R~rq:queue:* %R~rq:queues %R~rq:suspended")
    told = only(probe(config_for(at(plain, username="reader", password_env="ANY")), {"ANY": "secret"}))

    assert "mail could not be read" in told
    assert "key" in told


def test_a_refused_key_of_the_whole_framework_is_named(plain: Server) -> None:
    with plain.client() as client:
        user(client, RIGHTS, keys="%R~rq:queue* %R~rq:wip:*")
    told = only(probe(config_for(at(plain, username="reader", password_env="ANY")), {"ANY": "secret"}))

    assert "EXISTS rq:suspended" in told


def test_refused_tracking_is_a_warning(plain: Server) -> None:
    with plain.client() as client:
        user(client, RIGHTS.replace(" +client|tracking", ""))
    told = only(probe(config_for(at(plain, username="reader", password_env="ANY")), {"ANY": "secret"}))

    assert told.startswith("warning: Redis does not tell of changes")


def test_a_replica(folder: Path, plain: Server) -> None:
    with redis_server(folder, "--replicaof", "127.0.0.1", str(plain.port)) as replica:
        assert "is a replica" in only(probe(config_for(at(replica)), {}))


def test_an_eviction_policy_that_loses_jobs(plain: Server) -> None:
    with plain.client() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        told = only(probe(config_for(at(plain)), {}))
        client.config_set("maxmemory-policy", "noeviction")

    assert told == "warning: Redis evicts keys when it is full (allkeys-lru), jobs among them: set noeviction"


def test_a_queue_that_was_never_seen(plain: Server) -> None:
    assert "queue mial was never used" in only(probe(config_for(at(plain), queues=["mail", "mial"]), {}))


def test_nobody_there() -> None:
    assert "cannot be reached" in only(probe(config_for(RedisEndpoint(host="127.0.0.1", port=free_port())), {}))


def user(client: Redis, rights: str, keys: str = "%R~rq:*") -> None:
    words = rights.replace("resetkeys", f"resetkeys {keys}").split()
    client.execute_command("ACL", "SETUSER", "reader", "reset", "on", ">secret", *words)
