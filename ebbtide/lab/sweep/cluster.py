"""The connection to a Ray cluster, with a check that its nodes have this code before anything runs."""

import logging
import re
import socket
import sys
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from ebbtide.lab.sweep.plan import TASK
from ebbtide.lab.sweep.sources import digest_of
from ebbtide.text.one_line import printable

ANSWERS_WITHIN = 600.0
"""Seconds: a cluster without workers first starts one, and a machine for it."""
CONNECTS_WITHIN = 5.0
"""Seconds: Ray tries for minutes if no process listens."""
TRIES = 4
"""Attempts to connect through Ray Client. A failed one takes half a minute.

The head forks a client server for each client from a process with gRPC threads, and some of these servers abort before
they run (https://github.com/ray-project/ray/issues/63202): 6 of 60 on a busy machine.
"""
CLIENT_LOGS = "/tmp/ray/session_latest/logs"
EXAMPLES = "ray://flow-head-svc.ebbtide-ray-flow.svc:10001, or on a node of the cluster 10.0.3.7:6379"
TRACEBACK = "Traceback (most recent call last):"
TOKEN = "a wrong token causes the same error: check RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH"


class NoCluster(ValueError):
    """No usable cluster. The message is one line."""


@contextmanager
def ray_cluster(address: str) -> Generator[Any]:
    """The connected module. Raises `NoCluster`."""
    try:
        ray: Any = import_module("ray")
    except ModuleNotFoundError:
        raise NoCluster("--ray needs ray, which is not installed; pip install 'ebbtide[ray]'") from None
    _check_address(address)
    _connect(ray, address)
    errors: Any = import_module("ray.exceptions")
    try:
        _check_code(ray, address)
        yield ray
    except (ConnectionError, errors.RayError) as error:
        raise NoCluster(
            f"--ray {address}: the cluster is gone: {_message(error)}; the same command with --resume goes on"
        ) from error
    finally:
        ray.shutdown()


def _connect(ray: Any, address: str) -> None:
    for remaining in reversed(range(TRIES)):
        try:
            with warnings.catch_warnings(action="ignore"):
                ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
            return
        except ConnectionAbortedError as error:  # before versions are compared: that server returns the cluster's
            if not remaining:
                raise NoCluster(_no_client_server(ray, address, error)) from error
        except Exception as error:  # ConnectionError, RuntimeError (another version), ValueError, gRPC's
            hint = f"; {TOKEN}" if isinstance(error, ConnectionError) else ""
            raise NoCluster(
                f"--ray {address}: wanted a cluster of Ray {ray.__version__}, found {_message(error)}{hint}"
            ) from error


def _no_client_server(ray: Any, address: str, error: ConnectionAbortedError) -> str:
    versions = f"Ray {ray.__version__} and Python {sys.version_info.major}.{sys.version_info.minor}"
    return (
        f"--ray {address}: wanted a cluster of Ray {ray.__version__}, found that its head set up no client server in "
        f"{TRIES} attempts (last error: {_message(error)}); see ray_client_server*.err in {CLIENT_LOGS} on the head, "
        f"check that the head has {versions}, and run the command again"
    )


def _check_address(address: str) -> None:
    parts = urlsplit(address if "://" in address else f"//{address}")
    try:
        endpoint = parts.hostname, parts.port
    except ValueError:  # its port is no number
        endpoint = None, None
    if parts.scheme not in ("", "ray") or None in endpoint:
        raise NoCluster(f"--ray {address}: wanted ray://HOST:PORT or HOST:PORT, for example {EXAMPLES}")
    try:
        socket.create_connection(endpoint, CONNECTS_WITHIN).close()
    except OSError as error:
        raise NoCluster(f"--ray {address}: wanted a Ray cluster, found no answer there ({error})") from error


def code() -> str:
    return digest_of(TASK)


def _check_code(ray: Any, address: str) -> None:
    errors: Any = import_module("ray.exceptions")
    task = ray.remote(max_retries=3)(code).remote()
    try:
        cluster_code = ray.get(task, timeout=ANSWERS_WITHIN)
    except errors.GetTimeoutError as error:
        raise NoCluster(
            f"--ray {address}: wanted a worker with a free CPU, found none within {ANSWERS_WITHIN:.0f} s"
        ) from error
    except Exception as error:  # Ray wraps the error of a node without the package
        raise NoCluster(f"--ray {address}: wanted nodes with this code of Ebbtide, found {_message(error)}") from error
    if cluster_code != code():
        raise NoCluster(
            f"--ray {address}: wanted nodes with this code of Ebbtide ({code()}), found {cluster_code}: "
            "use the same release there, with the same holidays and tzdata"
        )


def _message(error: BaseException) -> str:
    """Return the error at the end of a traceback, or all lines of an error without one."""
    cause = getattr(error, "cause", None)
    text = str(cause if isinstance(cause, BaseException) else error)
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    raised = [line for line in lines if re.match(r"[\w.]+Error: ", line)]
    if not raised and TRACEBACK in text:  # not every error is named so, such as psutil.ZombieProcess
        raised = lines
    return printable(f"{type(error).__name__}: {' '.join(raised[-1:] or lines)}")[:400]
