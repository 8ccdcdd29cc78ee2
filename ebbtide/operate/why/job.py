"""Where a job is and where its checkpoint stands.

Redis knows, and it has no way in from outside the cluster. So a worker that runs is asked, which has Redis' address
and password anyway: `python -m ebbtide.jobs.checkpoints where JOB` in its container, by the operator's right to
`pods/exec`.
`job_facts` asks, `explain_job` turns the answer into lines and is pure.
"""

import json
from datetime import UTC, datetime
from typing import cast

from controllers.adapters.kube_api import ApiError
from ebbtide.operate.api import CannotOperate, OperatorApi, items, one_line
from ebbtide.operate.objects import Document, at, parse_instant, rfc3339
from ebbtide.operate.pod_exec import run_in_pod
from ebbtide.units.durations import whole_minutes
from ebbtide.vocabulary.controller_config import ControllerConfig, PoolPolicy
from ebbtide.vocabulary.labels import WORKLOAD

_CONTAINER = "worker"
_COMMAND = ("python", "-m", "ebbtide.jobs.checkpoints", "where", "--")
_MISSING = ("No module named", "invalid choice: 'where'", "executable file not found")


def job_facts(api: OperatorApi, config: ControllerConfig, job: str) -> Document:
    """What the first worker says that answers, RQ's pools first. Raises `ApiError`, and `CannotOperate` where none can
    be asked or no job has this id."""
    pools = sorted(config.pools, key=lambda pool: pool.source != "rq")
    refusals: list[str] = []
    for pool in pools:
        pod = _running_pod(api, pool)
        if pod is None:
            continue
        try:
            return _known(_asked(api, pool, pod, job), job)
        except _NoAnswer as why:
            refusals.append(f"pod {pod}: {why}")
    if refusals:
        raise CannotOperate(f"no worker can say where job {job} is: {'; '.join(refusals)}")
    names = ", ".join(pool.name for pool in pools) or "none"
    example = pools[0].name if pools else "NAME"
    raise CannotOperate(
        f"job {job}: no worker runs, and only a worker can be asked; the pools are: {names}. Waiting jobs start one "
        f"soon, and a checkpoint stays meanwhile; ebbtide why pool {example} says why none runs"
    )


class _NoAnswer(Exception):
    """This pod's; another may give one."""


def _running_pod(api: OperatorApi, pool: PoolPolicy) -> str | None:
    pods = items(api, f"/api/v1/namespaces/{pool.namespace}/pods", labelSelector=f"{WORKLOAD}={pool.deployment}")
    running = [pod for pod in pods if at(pod, "status", "phase") == "Running"]
    running.sort(key=_is_leaving)  # one that ends its last job can be asked still
    return next((str(pod["metadata"]["name"]) for pod in running), None)


def _is_leaving(pod: Document) -> bool:
    ready = any(at(one, "ready") for one in at(pod, "status", "containerStatuses") or ())
    return bool(at(pod, "metadata", "deletionTimestamp")) or not ready


def _asked(api: OperatorApi, pool: PoolPolicy, pod: str, job: str) -> Document:
    path = f"/api/v1/namespaces/{pool.namespace}/pods/{pod}"
    try:
        ran = run_in_pod(api, path, _CONTAINER, [*_COMMAND, job])
    except ApiError as error:
        if error.status == 403:  # the server does not always say which right it misses
            needed = f"wanted the rights to get and create pods/exec in {pool.namespace}"
            raise ApiError(403, f"{str(error).rstrip(': ')}; {needed}") from error
        if error.status == 401:
            raise
        raise _NoAnswer(one_line(error)) from error
    if any(words in ran.said for words in _MISSING):
        raise _NoAnswer(f"its image has no ebbtide-jobs of this release ({ran.said})")
    try:
        document: object = json.loads(ran.out) if ran.code == 0 else None
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise _NoAnswer(ran.said or f"found {ran.out[:60]!r}, wanted JSON")
    return cast("Document", document)


def _known(document: Document, job: str) -> Document:
    if document.get("rq") is None and document.get("checkpoint") is None:
        raise CannotOperate(
            f"no job {job}: Redis knows no job of RQ and no checkpoint under this id. RQ forgets a job when its result "
            "has lived its time; of a job of Celery or a list only its checkpoint is known",
            2,
        )
    return document


def explain_job(document: Document, config: ControllerConfig, now: datetime) -> list[str]:
    """Sentences: where it is, then what is known of its checkpoint."""
    return [_place(document, config, now), *_checkpoint(document, now)]


def _place(document: Document, config: ControllerConfig, now: datetime) -> str:
    job, rq = f"Job {document.get('job')}", document.get("rq")
    if rq is None:
        return f"{job} is not one of RQ, or RQ has forgotten it: only its checkpoint is known."
    status, queue = at(rq, "status"), at(rq, "queue")
    pools = [pool.name for pool in config.pools if pool.source == "rq" and queue in pool.queues]
    of = f"queue {queue} of pool {pools[0]}" if pools else f"queue {queue}, which no pool reads"
    if status == "queued":
        position = at(rq, "position")
        if position is None:
            return f"{job} was just taken from its queue, or is between two states: {of}. Ask again."
        return f"{job} waits: number {position} of {at(rq, 'waiting')} in {of}."
    if status == "started":
        where = f"pod {at(rq, 'pod')}" if at(rq, "pod") else f"worker {at(rq, 'worker')}, which is gone"
        late = "; its heartbeat is overdue, so another worker takes it soon" if at(rq, "silent") else ""
        return f"{job} runs on {where}, begun{_since(at(rq, 'since'), now)}: {of}{late}."
    if at(rq, "ended"):
        error = f": {at(rq, 'error')}" if at(rq, "error") else ""
        return f"{job} has ended, {status}{_since(at(rq, 'ended'), now)}, {of}{error}."
    return f"{job} is {status or 'in no state'} in RQ's words: {of}."


def _checkpoint(document: Document, now: datetime) -> list[str]:
    kept = document.get("checkpoint")
    if not kept:
        return ["It has opened no checkpoint."]
    saved = at(kept, "saved")
    what = f"step {at(kept, 'step')}, saved{_since(saved, now)}" if saved else "opened, nothing saved yet"
    lines = [f"Its checkpoint: {what}. Attempt {at(kept, 'token') or '?'}: each return to the queue counts as one too."]
    deaths = int(at(kept, "deaths") or 0)
    after = "since that save" if saved else "so far"
    if deaths:
        lines.append(f"It ended hard {deaths} time{'s' if deaths > 1 else ''} {after}; the third time fails it.")
    if at(kept, "problem"):
        lines.append(f"The last problem: {at(kept, 'problem')}.")
    return lines


def _since(instant: object, now: datetime) -> str:
    """` 5 min ago (2026-11-20T15:00:00Z)`; empty where there is none."""
    parsed = parse_instant(instant)
    return "" if parsed is None else f" {whole_minutes(now - parsed)} ago ({rfc3339(parsed.astimezone(UTC))})"
