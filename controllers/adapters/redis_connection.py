"""Connections to Redis that report errors at once, and messages for these errors.

By default the client library retries ten times with growing pauses: it would report a dead server only after seconds.
Here the caller decides when to try again. With Sentinels, every new connection queries them for the primary, without a
password and with the same TLS settings.
"""

import ssl
from collections.abc import Mapping
from typing import Any

from redis import Redis, exceptions
from redis.maint_notifications import MaintNotificationsConfig
from redis.sentinel import MasterNotFoundError, Sentinel

from ebbtide.vocabulary.controller_config import RedisEndpoint

SOCKET_TIMEOUT = 1.0  # seconds
_WRONG_NAME = (62, 64)  # OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH


class MissingPassword(ValueError):
    """The environment variable of the password is not set."""


def connect(endpoint: RedisEndpoint, environment: Mapping[str, str]) -> Redis:
    """Return a client that connects on first use, and again after any error. Raises `MissingPassword`."""
    password = environment.get(endpoint.password_env or "")
    if endpoint.password_env is not None and password is None:
        raise MissingPassword(f"the Redis password is missing: set the variable {endpoint.password_env}")
    options: dict[str, Any] = {
        "socket_timeout": SOCKET_TIMEOUT,
        "socket_connect_timeout": SOCKET_TIMEOUT,
        "retry": None,  # the default is ten times
        "encoding_errors": "replace",  # any client may write names that are no UTF-8
        "driver_info": None,  # sending the library's name would require another right
        "maint_notifications_config": MaintNotificationsConfig(enabled=False),  # likewise
    }
    if endpoint.tls:
        options |= {
            "ssl": True,
            "ssl_cert_reqs": "required",
            "ssl_check_hostname": True,
            "ssl_ca_certs": endpoint.ca_file,
        }
    password = password or None  # "": Redis requires no password
    access: dict[str, Any] = {"username": endpoint.username, "password": password, "db": endpoint.db, **options}
    if not endpoint.sentinels:
        return Redis(host=endpoint.host, port=endpoint.port, decode_responses=True, **access)
    addresses = (address.rpartition(":") for address in endpoint.sentinels)
    sentinel = Sentinel([(host.strip("[]"), int(port)) for host, _, port in addresses], sentinel_kwargs=options)
    return sentinel.master_for(endpoint.sentinel_service, decode_responses=True, **access)


_MESSAGES: Mapping[type[exceptions.RedisError], str] = {  # the first match counts; a plain RedisError needs no prefix
    exceptions.AuthenticationError: "Redis refused the user name or password: ",
    exceptions.NoPermissionError: "Redis user lacks a right (`ebbtide docs queues#rights` lists them): ",
    exceptions.BusyLoadingError: "Redis is still loading its data: ",
    MasterNotFoundError: "no Sentinel knows a primary: are the service's name and their addresses right? ",
    exceptions.TimeoutError: "Redis did not answer in time: frozen, cut off, or a TLS port spoken to without TLS? ",
    exceptions.ConnectionError: "Redis cannot be reached: ",
    exceptions.ResponseError: "Redis answered with an error: ",
    exceptions.RedisError: "",
}


def explain(error: exceptions.RedisError) -> str:
    """Return a remedy for the operator, in one line."""
    return _explain_tls(error) or next(f"{text}{error}" for kind, text in _MESSAGES.items() if isinstance(error, kind))


def _explain_tls(error: BaseException | None) -> str:
    """Explain a failed TLS handshake. The library raises its own error, with the handshake's error as the context."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    if error is None:
        return ""
    if not isinstance(error, ssl.SSLCertVerificationError):
        return f"the TLS handshake with Redis failed: is this port a TLS port? ({error.reason})"
    if error.verify_code in _WRONG_NAME:
        return f"Redis has a certificate for another host name: use one that it is for ({error.verify_message})"
    return f"Redis has a certificate that is not trusted: give its authority's ({error.verify_message})"
