"""One connection to Redis that reports trouble at once, and words for that trouble.

The client library retries ten times with growing pauses unless told otherwise: a dead server would take seconds to
report. The loop is the retry here.
"""

from collections.abc import Mapping

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,  # noqa: A004 - the library's own name
    NoPermissionError,
    RedisError,
    TimeoutError,  # noqa: A004 - the library's own name
)
from redis.retry import Retry

from ebbtide.vocabulary.controller_config import RedisEndpoint

SOCKET_TIMEOUT = 1.0  # seconds


class MissingPassword(ValueError):
    """The variable that should hold the password is not set."""


def connect(endpoint: RedisEndpoint, environment: Mapping[str, str]) -> Redis:
    """A client for `endpoint`; connects on first use."""
    password = None
    if endpoint.password_env is not None:
        password = environment.get(endpoint.password_env)
        if password is None:
            raise MissingPassword(f"the Redis password is missing: set the variable {endpoint.password_env}")
    return Redis(
        host=endpoint.host,
        port=endpoint.port,
        db=endpoint.db,
        username=endpoint.username,
        password=password or None,  # an empty one: this Redis asks for none
        ssl=endpoint.tls,
        socket_timeout=SOCKET_TIMEOUT,
        socket_connect_timeout=SOCKET_TIMEOUT,
        retry=Retry(NoBackoff(), 0),
        decode_responses=True,
    )


def explain(error: RedisError) -> str:
    """What an operator can do about it, in one line."""
    match error:
        case AuthenticationError():
            return f"Redis refused the user name or password: {error}"
        case NoPermissionError():
            return f"Redis user lacks a right (docs/queues.md lists them): {error}"
        case BusyLoadingError():
            return "Redis is still loading its data"
        case TimeoutError():
            return "Redis did not answer in time: frozen, cut off, or a TLS port spoken to without TLS?"
        case ConnectionError():
            return f"Redis cannot be reached: {error}"
        case _:
            return f"Redis answered with an error: {error}"
