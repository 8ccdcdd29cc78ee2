"""A Ray cluster to play on: connected to, and asked whether its nodes have this code before anything is played."""

import logging
import re
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from ebbtide.settings.file.problems import one_line
from ebbtide.sweep.plan import TASK
from ebbtide.sweep.sources import digest_of

ANSWERS_WITHIN = 120.0
"""Seconds: a cluster whose workers have gone brings one first."""


class NoCluster(ValueError):
    """In one line."""


@contextmanager
def ray_cluster(address: str) -> Generator[Any]:
    """The connected module. Raises `NoCluster`."""
    try:
        ray: Any = import_module("ray")
    except ModuleNotFoundError:
        raise NoCluster("--ray needs ray, which is not installed; pip install 'ebbtide[ray]'") from None
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # by what is wrong: ConnectionError, RuntimeError (another version), ValueError, gRPC's
        raise NoCluster(f"--ray {address}: wanted a cluster of Ray {ray.__version__}, found {_said(error)}") from error
    try:
        _same_code(ray, address)
        yield ray
    finally:
        ray.shutdown()


def code() -> str:
    return digest_of(TASK)


def _same_code(ray: Any, address: str) -> None:
    asked = ray.remote(max_retries=3)(code).remote()
    try:
        found = ray.get(asked, timeout=ANSWERS_WITHIN)
    except Exception as error:  # Ray wraps what a node without the package says into errors of its own
        raise NoCluster(f"--ray {address}: wanted nodes with this code of Ebbtide, found {_said(error)}") from error
    if found != code():
        raise NoCluster(
            f"--ray {address}: wanted nodes with this code of Ebbtide ({code()}), found {found}: use the same release"
        )


def _said(error: BaseException) -> str:
    """Ray's errors hold a traceback, or a heading and what is meant below it: what was raised, or the two ends."""
    cause = getattr(error, "cause", None)
    text = str(cause if isinstance(cause, BaseException) else error)
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    raised = [line for line in lines if re.match(r"[\w.]+Error: ", line)]
    said = " ".join(raised[-1:] or dict.fromkeys((*lines[:1], *lines[-1:])))
    return one_line(f"{type(error).__name__}: {said}")[:400]
