"""Faults in the connections to Redis and to brokers, checked at start: one line per fault, with a remedy.

A fault does not stop the process: the affected pools are held until a reading succeeds. While there is one the check
repeats, since it may have hidden others, and a fault that has ended is no longer shown.
"""

import socket
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence

from redis import Redis
from redis.exceptions import AuthenticationError, RedisError, ResponseError

from controllers.adapters.redis_connection import SOCKET_TIMEOUT, MissingPassword, connect, explain
from controllers.adapters.redis_demand import RedisDemand, UnknownSource, by_backend
from controllers.ports import Known, Unknown
from ebbtide.vocabulary.controller_config import ControllerConfig, RedisEndpoint

_AGAIN = 60.0  # seconds from one check to the next


def follow_faults(
    check: Callable[[], list[str]],
    show: Callable[[list[str], Sequence[str]], object],
    ended: Callable[[float], bool],
) -> None:
    """Check until there is no fault. `show` gets all and the new ones; `ended` waits and returns True to stop."""
    faults: list[str] = []
    while True:
        before, faults = faults, check()
        show(faults, [fault for fault in faults if fault not in before])
        if not faults or ended(_AGAIN):
            return


def probe(config: ControllerConfig, environment: Mapping[str, str]) -> list[str]:
    """Return the faults of the config's Redis, of the pools' queues in it, and of the users of brokers."""
    return [*_redis_faults(config, environment), *_broker_faults(config, environment)]


def _redis_faults(config: ControllerConfig, environment: Mapping[str, str]) -> list[str]:
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


def _broker_faults(config: ControllerConfig, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield what the users of RabbitMQs may do beyond looking."""
    for endpoint in config.brokers:
        from controllers.adapters.rabbit_broker import RabbitBroker  # its library takes 3 MiB of memory

        broker = RabbitBroker(endpoint, environment.get(endpoint.password_env, ""))
        excess = broker.excess_rights()
        broker.close()
        user = f"warning: broker {endpoint.name}: user {endpoint.username}"
        if isinstance(excess, Unknown):
            why = excess.why.replace(f"broker {endpoint.name}", "the broker")
            yield f"{user}: its rights could not be checked: {why}"
        elif excess:
            yield f"{user} {' and '.join(excess)}; it only needs to look: {endpoint.reader_commands}"


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
