"""Faults in the connection to Redis, checked once at start: one line per fault, with a remedy.

A fault does not stop the process: the affected pools are held until a reading succeeds.
"""

import socket
import ssl
from collections.abc import Iterator, Mapping

from redis import Redis
from redis.exceptions import AuthenticationError, RedisError, ResponseError

from controllers.adapters.redis_connection import SOCKET_TIMEOUT, MissingPassword, connect, explain
from controllers.adapters.redis_demand import RedisDemand, UnknownSource, by_backend
from controllers.ports import Known, Unknown
from ebbtide.vocabulary.controller_config import ControllerConfig, RedisEndpoint


def probe(config: ControllerConfig, environment: Mapping[str, str]) -> list[str]:
    """Return the faults of the config's Redis and of the pools' queues."""
    endpoint = config.redis
    try:
        with connect(endpoint, environment) as client:
            client.ping()
            return [*_server_faults(client), *dict.fromkeys(_queue_faults(client, config))]
    except (MissingPassword, UnknownSource) as error:
        return [str(error)]
    except AuthenticationError as error:
        user = f"user {endpoint.username or 'default'}"
        if endpoint.password_env is None:
            return [f"Redis wants a password of {user}: give one ({error})"]
        return [f"Redis refused the password of {user}: does {endpoint.password_env} hold the right one? ({error})"]
    except RedisError as error:
        if endpoint.sentinels or not _uses_other_protocol(endpoint):
            return [explain(error)]
        port = f"port {endpoint.port} of {endpoint.host}"
        if endpoint.tls:
            return [f"{port} does not speak TLS and was spoken to with it: is there a TLS port? else use redis://"]
        return [f"{port} speaks TLS and was spoken to without: use rediss://"]


def _server_faults(client: Redis) -> Iterator[str]:
    policy = client.info("memory").get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        yield f"warning: Redis evicts keys when it is full ({policy}), jobs among them: set noeviction"
    try:
        client.execute_command("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "ebbtide:probe")
        client.execute_command("CLIENT", "TRACKING", "OFF")
    except ResponseError as error:
        yield f"warning: Redis does not tell of changes, so it is asked all the time: {error}"


def _queue_faults(client: Redis, config: ControllerConfig) -> Iterator[str]:
    for backend, pools in by_backend(config):
        queues = {name: (name,) for pool in pools for name in pool.queues}
        for name, reading in RedisDemand(client, backend, queues).read(list(queues)).items():
            if isinstance(reading, Unknown):
                yield reading.why
            elif isinstance(reading, Known) and not reading.seen_before:
                yield f"warning: queue {name} was never used by a worker or a job: is its name right?"


def _uses_other_protocol(endpoint: RedisEndpoint) -> bool:
    """Return True if only one of server and endpoint uses TLS. No secret is sent, so any server is trusted."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((endpoint.host, endpoint.port), SOCKET_TIMEOUT) as plain:
            if endpoint.tls:
                plain.sendall(b"PING\r\n")
                return plain.recv(1) in (b"+", b"-")
            with context.wrap_socket(plain):
                return True
    except OSError:
        return False
