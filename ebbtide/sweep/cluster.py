"""A Ray cluster to play on: connected to, and asked whether its nodes have this code before anything is played."""

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
"""Seconds: a cluster whose workers have gone brings one first, and a machine for it."""
CONNECTS_WITHIN = 5.0
"""Seconds: Ray itself tries for minutes where nobody listens."""
TRIES = 2
"""A busy head may be too slow to begin the driver of a Ray Client, which is given half a minute."""
EXAMPLES = "ray://flow-head-svc.ebbtide-ray-flow.svc:10001, or on a node of the cluster 10.0.3.7:6379"
TOKEN = "Ray says the same to a wrong token: check RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH"


class NoCluster(ValueError):
    """In one line."""


@contextmanager
def ray_cluster(address: str) -> Generator[Any]:
    """The connected module. Raises `NoCluster`."""
    try:
        ray: Any = import_module("ray")
    except ModuleNotFoundError:
        raise NoCluster("--ray needs ray, which is not installed; pip install 'ebbtide[ray]'") from None
    _somebody_listens(address)
    _connect(ray, address)
    errors: Any = import_module("ray.exceptions")
    try:
        _same_code(ray, address)
        yield ray
    except (ConnectionError, errors.RayError) as error:
        raise NoCluster(
            f"--ray {address}: the cluster is gone: {_said(error)}; the same command with --resume goes on"
        ) from error
    finally:
        ray.shutdown()


def _connect(ray: Any, address: str) -> None:
    for left in reversed(range(TRIES)):
        try:
            with warnings.catch_warnings(action="ignore"):
                ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
            return
        except Exception as error:  # of many kinds: ConnectionError, RuntimeError (another version), ValueError, gRPC's
            late = isinstance(error, ConnectionAbortedError)
            if late and left:
                continue
            hint = f"; {TOKEN}" if isinstance(error, ConnectionError) and not late else ""
            raise NoCluster(
                f"--ray {address}: wanted a cluster of Ray {ray.__version__}, found {_said(error)}{hint}"
            ) from error


def _somebody_listens(address: str) -> None:
    parts = urlsplit(address if "://" in address else f"//{address}")
    try:
        place = parts.hostname, parts.port
    except ValueError:  # its port is no number
        place = None, None
    if parts.scheme not in ("", "ray") or None in place:
        raise NoCluster(f"--ray {address}: wanted ray://HOST:PORT or HOST:PORT, for example {EXAMPLES}")
    try:
        socket.create_connection(place, CONNECTS_WITHIN).close()
    except OSError as error:
        raise NoCluster(f"--ray {address}: wanted a Ray cluster, found that nobody answers there ({error})") from error


def code() -> str:
    return digest_of(TASK)


def _same_code(ray: Any, address: str) -> None:
    errors: Any = import_module("ray.exceptions")
    asked = ray.remote(max_retries=3)(code).remote()
    try:
        found = ray.get(asked, timeout=ANSWERS_WITHIN)
    except errors.GetTimeoutError as error:
        raise NoCluster(
            f"--ray {address}: wanted a worker with a free CPU, found none within {ANSWERS_WITHIN:.0f} s"
        ) from error
    except Exception as error:  # Ray wraps what a node without the package says into errors of its own
        raise NoCluster(f"--ray {address}: wanted nodes with this code of Ebbtide, found {_said(error)}") from error
    if found != code():
        raise NoCluster(
            f"--ray {address}: wanted nodes with this code of Ebbtide ({code()}), found {found}: "
            "use the same release there, with the same holidays and tzdata"
        )


def _said(error: BaseException) -> str:
    """Ray's errors may hold a traceback, of which this is what was raised; others have a few lines, all needed."""
    cause = getattr(error, "cause", None)
    text = str(cause if isinstance(cause, BaseException) else error)
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    raised = [line for line in lines if re.match(r"[\w.]+Error: ", line)]
    said = " ".join(raised[-1:] or lines)
    return one_line(f"{type(error).__name__}: {said}")[:400]
