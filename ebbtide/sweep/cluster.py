"""The connection to a Ray cluster, with a check that its nodes have this code before anything runs."""

import logging
import re
import socket
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from ebbtide.settings.file.problems import one_line
from ebbtide.sweep.plan import TASK
from ebbtide.sweep.sources import digest_of

ANSWERS_WITHIN = 600.0
"""Seconds: a cluster without workers first starts one, and a machine for it."""
CONNECTS_WITHIN = 5.0
"""Seconds: Ray tries for minutes if no process listens."""
TRIES = 2
"""A busy head may be too slow to start the driver of a Ray Client, which times out after half a minute."""
EXAMPLES = "ray://flow-head-svc.ebbtide-ray-flow.svc:10001, or on a node of the cluster 10.0.3.7:6379"
TOKEN = "Ray says the same to a wrong token: check RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH"


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
        except Exception as error:  # ConnectionError, RuntimeError (another version), ValueError, gRPC's
            timed_out = isinstance(error, ConnectionAbortedError)
            if timed_out and remaining:
                continue
            hint = f"; {TOKEN}" if isinstance(error, ConnectionError) and not timed_out else ""
            raise NoCluster(
                f"--ray {address}: wanted a cluster of Ray {ray.__version__}, found {_message(error)}{hint}"
            ) from error


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
        raise NoCluster(f"--ray {address}: wanted a Ray cluster, found that nobody answers there ({error})") from error


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
    """The raised error from the traceback of a Ray error; all lines of other errors."""
    cause = getattr(error, "cause", None)
    text = str(cause if isinstance(cause, BaseException) else error)
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    raised = [line for line in lines if re.match(r"[\w.]+Error: ", line)]
    return one_line(f"{type(error).__name__}: {' '.join(raised[-1:] or lines)}")[:400]
