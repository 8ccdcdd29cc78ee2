"""Debian's redis-server with the options that a test wants: TLS, users, replicas, Sentinels. Needs openssl for TLS.

Every server has a directory of its own and ends by its own pid.
"""

import shutil
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, RedisError
from redis.retry import Retry

from ebbtide.demo.embedded import HOST, free_port
from ebbtide.vocabulary.controller_config import ControllerConfig, PoolPolicy, RedisEndpoint
from ebbtide.vocabulary.windows import BusinessHours
from tests.builders.redis import wait_until

POOL = PoolPolicy(
    name="mail",
    namespace="ebbtide-workers",
    deployment="mail",
    source="rq",
    queues=("mail",),
    jobs_per_worker=1,
    min_workers=0,
    max_workers=4,
    stabilization_window=timedelta(seconds=30),
    longest_job=timedelta(hours=1),
    safe_stop=True,
)
CONFIG = ControllerConfig(
    customer="acme",
    hours=BusinessHours(timezone="UTC", week=()),
    closing_guard=timedelta(minutes=15),
    node_startup=timedelta(minutes=5),
    resync=timedelta(seconds=2),
    redis=RedisEndpoint(host=HOST),
    pools=(POOL,),
    budgets=(),
)


def config_for(endpoint: RedisEndpoint, queues: Sequence[str] = ("mail",)) -> ControllerConfig:
    return replace(CONFIG, redis=endpoint, pools=(replace(POOL, queues=tuple(queues)),))


def missing_parts() -> str:
    """What this machine lacks for these tests; empty: nothing."""
    lacks = [program for program in ("redis-server", "redis-sentinel", "openssl") if shutil.which(program) is None]
    if lacks:
        return f"no {', '.join(lacks)} on PATH (on Debian: apt-get install redis-server redis-sentinel openssl)"
    done = subprocess.run(["redis-server", "--tls-port", "0", "-"], input=b"port x", capture_output=True, check=False)
    return "this redis-server was built without TLS" if b"tls-port" in done.stdout + done.stderr else ""


@dataclass(frozen=True)
class Server:
    port: int
    process: "subprocess.Popen[bytes]"
    options: Mapping[str, object] = field(default_factory=dict[str, object])  # of a client that may do everything

    def client(self) -> Redis:
        tls = {"ssl": True, "ssl_check_hostname": False, **self.options} if self.options else {}
        return Redis(host=HOST, port=self.port, socket_timeout=2, retry=Retry(NoBackoff(), 0), **tls)  # pyright: ignore[reportArgumentType] - one dictionary for options of many types


@contextmanager
def redis_server(
    folder: Path, *arguments: str, port: int | None = None, certificates: "Certificates | None" = None
) -> Generator[Server]:
    """A server with nothing saved; with `certificates` its port speaks TLS only."""
    chosen = free_port() if port is None else port
    listens = ["--port", str(chosen)] if certificates is None else certificates.options(chosen)
    own = folder / f"redis-{chosen}"
    own.mkdir(exist_ok=True)
    options = {} if certificates is None else {"ssl_ca_certs": str(certificates.authority)}
    with (own / "log").open("ab") as log:
        command = ["redis-server", "--bind", HOST, "--save", "", "--dir", str(own), *listens, *arguments]
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    server = Server(chosen, process, options)
    try:
        wait_until(lambda: _listens(server), f"redis-server on {chosen}")
        yield server
    finally:
        process.kill()
        process.wait()


@contextmanager
def sentinel(folder: Path, primary: int, service: str = "jobs") -> Generator[int]:
    """One Sentinel that gives up a primary after half a second; gives its port."""
    port = free_port()
    config = folder / f"sentinel-{port}.conf"
    settings = [f"monitor {service} {HOST} {primary} 1", f"down-after-milliseconds {service} 500"]
    settings += [f"failover-timeout {service} 5000"]
    lines = [f"port {port}", f"bind {HOST}", f"dir {folder}", *(f"sentinel {setting}" for setting in settings)]
    config.write_text("\n".join(lines) + "\n")
    with (folder / f"sentinel-{port}.log").open("ab") as log:
        process = subprocess.Popen(["redis-sentinel", str(config)], stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: _listens(Server(port, process)), f"redis-sentinel on {port}")
        yield port
    finally:
        process.kill()
        process.wait()


def _listens(server: Server) -> bool:
    assert server.process.poll() is None, "the server has ended"
    try:
        with server.client() as client:
            return bool(client.ping())
    except AuthenticationError:
        return True
    except RedisError:
        return False


@dataclass(frozen=True)
class Certificates:
    """An authority and a certificate that it signed, for one name."""

    authority: Path
    key: Path
    certificate: Path

    def options(self, port: int) -> list[str]:
        files = ["--tls-ca-cert-file", self.authority, "--tls-cert-file", self.certificate, "--tls-key-file", self.key]
        return ["--port", "0", "--tls-port", str(port), "--tls-auth-clients", "no", *map(str, files)]


def certificates(folder: Path, names: str) -> Certificates:
    """`names` as OpenSSL writes them: `DNS:localhost,IP:127.0.0.1`."""
    folder.mkdir()
    request = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    _run(folder, *request, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=test authority", "-days", "2")
    signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-addext", f"subjectAltName={names}"]
    signed += ["-addext", "basicConstraints=critical,CA:FALSE"]
    _run(folder, *request, "-keyout", "key", "-out", "pem", "-subj", "/CN=redis", "-days", "2", *signed)
    return Certificates(folder / "ca.pem", folder / "key", folder / "pem")


def _run(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
