"""The Redis pod as its component describes it, run by Debian's redis-server with a certificate."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from subprocess import STDOUT, Popen

from components.pods.redis_access import redis_endpoint
from components.redis.queues import Redis, RedisArgs
from ebbtide.demo.embedded import free_port
from ebbtide.settings.sections.redis import RedisSettings, RedisTls
from ebbtide.vocabulary.controller_config import RedisEndpoint
from tests.builders.components import STACK, pod_of, recorded, the
from tests.builders.redis import wait_until
from tests.redis_faults.redis_server import Certificates

PASSWORD = "hush/hush"
SETTINGS = RedisSettings(tls=RedisTls(secret="redis-tls"))


@contextmanager
def encrypted_server(folder: Path, issued: Certificates) -> Generator[int]:
    """The container's own arguments; only paths, the port and the password are put in, as the kubelet would."""
    args = RedisArgs(stack=STACK, settings=SETTINGS)
    container = pod_of(the(recorded(lambda: Redis("redis", args)), "StatefulSet"))["containers"][0]
    chosen = free_port()
    inside = {
        "/data": str(folder),
        "/tls/tls.crt": str(issued.certificate),
        "/tls/tls.key": str(issued.key),
        "/tls/ca.crt": str(issued.authority),
        "6379": str(chosen),
        "$(REDIS_PASSWORD)": PASSWORD,
    }
    given: list[str] = container["args"]
    words = [inside.get(word, word) for word in given]
    with (folder / "log").open("ab") as log:
        process = Popen(["redis-server", "--bind", "127.0.0.1", *words], stdout=log, stderr=STDOUT)
    try:
        wait_until(lambda: b"Ready to accept connections" in (folder / "log").read_bytes(), "the encrypted server")
        yield chosen
    finally:
        process.kill()
        process.wait()


def endpoint(port: int, authority: Path, host: str = "localhost") -> RedisEndpoint:
    return replace(redis_endpoint(SETTINGS), host=host, port=port, ca_file=str(authority))
