"""The Redis of demo and tests: it starts, ends, and reports in one line why it cannot start."""

import socket
import stat
from pathlib import Path

import pytest

from ebbtide.demo.embedded import HOST, free_port
from ebbtide.demo.embedded_redis import EmbeddedRedis, NoRedis, find_server, require_redis
from tests.processes import lives

pytestmark = pytest.mark.redis


def test_it_answers_inside_and_is_gone_after() -> None:
    with EmbeddedRedis() as server:
        with server.client() as client:
            assert client.ping()
        pid, port = server.pid, server.port

    assert pid is not None
    assert not lives(pid)
    with pytest.raises(NoRedis, match=f"no Redis answers on {HOST}:{port}"):
        require_redis(port)


def test_a_taken_port_is_one_clear_line() -> None:
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        port = other.getsockname()[1]

        with pytest.raises(NoRedis, match=f"port {port} is already taken") as caught, EmbeddedRedis(port):
            pytest.fail("it started on a taken port")

    assert "\n" not in str(caught.value)


def test_a_chosen_port_is_used() -> None:
    port = free_port()
    with EmbeddedRedis(port) as server:
        require_redis(server.port)

    assert server.port == port


def test_the_environment_names_the_server_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "my-redis"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("REDIS_SERVER", str(program))

    assert find_server() == program


def test_a_server_on_path_comes_before_the_bundled_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "valkey-server"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.delenv("REDIS_SERVER", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert find_server() == program


def test_a_named_server_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_SERVER", "/nowhere/redis-server")

    with pytest.raises(NoRedis, match="REDIS_SERVER=/nowhere/redis-server: no such program"):
        find_server()


def test_a_server_that_ends_at_once_is_told_with_its_last_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "broken"
    program.write_text("#!/bin/sh\necho out of luck\nexit 1\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("REDIS_SERVER", str(program))

    with pytest.raises(NoRedis, match=r"did not start on port \d+: out of luck"), EmbeddedRedis():
        pytest.fail("it started")
