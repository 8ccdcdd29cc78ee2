"""Drive Ray from a queue's job: the queue's depth bounds the drivers, and their Ray requests bring pods and GPUs.

def label(day):
    with checkpoint() as saved, ray_cluster() as ray:
        embed = ray.remote(num_gpus=1)(embed_images)
        …

The driver is this process, with its own raylet. However it ends, Ray ends its tasks and actors at once and frees its
objects; a paused job resumes at its own checkpoint. Ray has no priorities among drivers.
"""

import hashlib
import importlib
import json
import logging
import platform
import random
import socket
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ebbtide.jobs import __version__
from ebbtide.jobs.checkpoints.environment import seconds
from ebbtide.jobs.checkpoints.errors import Paused
from ebbtide.jobs.checkpoints.running import running_job
from ebbtide.jobs.ray_node import (
    OBJECT_STORE,
    VARIABLE,
    HeadAway,
    RayError,
    RaySettings,
    ask,
    node_beside,
    ray_settings,
)

__all__ = ["RayError", "ray_cluster"]

META = "ebbtide:run"  # key in the metadata of RQ's job
PAUSE = 2.0  # seconds between two connection attempts, on average
CONNECT_WITHIN = 5.0  # seconds
LOG_EVERY = 60.0  # seconds

_log = logging.getLogger("ebbtide.ray")


@contextmanager
def ray_cluster(
    *,
    within: str | float | timedelta = "15m",
    object_store: int = OBJECT_STORE,
    runtime_env: Mapping[str, Any] | None = None,
) -> Generator[Any]:
    """Yield the module `ray`, connected to the pool's cluster until the end of the block.

    `within`: how long a job waits for a head that sleeps or restarts; a worker that stops meanwhile returns the job to
    its queue. `object_store`: bytes for objects that the driver itself puts and gets.

    Raises `RayError` with one line, and `Paused`.
    """
    settings = ray_settings()
    ray = _matching_ray(settings)
    with ExitStack() as undo:
        folder = undo.enter_context(_patiently_beside(settings, seconds(within, "within"), object_store))
        job = running_job()
        ray.init(
            settings.address,
            _temp_dir=str(folder),  # of this driver's raylet, since a pod may have several
            runtime_env=dict(runtime_env) if runtime_env else None,
            job_config=ray.job_config.JobConfig(metadata={"queue_job": job.id if job else ""}),
            logging_level=logging.WARNING,
        )
        undo.callback(ray.shutdown)
        _record(settings)
        try:
            yield ray
        except Paused:
            _log.info("job %s is paused: Ray cancels its tasks", job.id if job else "?")
            raise


def _matching_ray(settings: RaySettings) -> Any:
    try:
        installed = version("ray")
    except PackageNotFoundError:
        raise RayError(f"{VARIABLE}: this image has no Ray, wanted ray[default]=={settings.version}") from None
    if installed != settings.version:
        raise RayError(
            f"{VARIABLE}: this image has Ray {installed} and the Ray cluster {settings.cluster} has "
            f"{settings.version}: both must be equal"
        )
    return importlib.import_module("ray")


@contextmanager
def _patiently_beside(settings: RaySettings, within: float, object_store: int) -> Generator[Path]:
    began, logged_at, job = time.monotonic(), float("-inf"), running_job()
    with ExitStack() as undo:
        while True:
            try:
                _connect(settings)
                ask(settings)
                folder = undo.enter_context(node_beside(settings, object_store))
                break
            except HeadAway as why:
                now = time.monotonic()
                if job is not None and job.stopping:
                    raise Paused(f"job {job.id} has not begun: Ray cluster {settings.cluster}: {why}") from why
                if now - began > within:
                    raise RayError(
                        f"Ray cluster {settings.cluster} at {settings.address} could not be used for "
                        f"{now - began:.0f} s: {why}"
                    ) from why
                if now - logged_at >= LOG_EVERY:
                    logged_at = now
                    _log.warning("waiting for Ray cluster %s (%.0f s so far): %s", settings.cluster, now - began, why)
                time.sleep(random.uniform(0.5, 1.5) * PAUSE)
        yield folder


def _connect(settings: RaySettings) -> None:
    """Check the port first, because Ray waits long for a port without a listener."""
    try:
        socket.create_connection(settings.host_and_port, CONNECT_WITHIN).close()
    except OSError as error:
        raise HeadAway(f"no answer at {settings.address} ({error})") from error


def _record(settings: RaySettings) -> None:
    """Log what is needed to repeat the run; RQ keeps the arguments themselves as long as the job's result."""
    job = running_job()
    record: dict[str, Any] = {
        "image": settings.image,
        "ray": settings.version,
        "python": platform.python_version(),
        "ebbtide-jobs": __version__,
    }
    rq = sys.modules.get("rq")
    current: Any = rq.get_current_job() if rq else None
    if current is not None:
        record |= {"function": current.func_name, "arguments": hashlib.sha256(current.data).hexdigest()}
        current.meta[META] = record
        current.save_meta()
    _log.info("job %s drives Ray cluster %s: %s", job.id if job else "?", settings.cluster, json.dumps(record))
