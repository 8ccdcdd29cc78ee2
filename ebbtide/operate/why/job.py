"""Explain where a job is, and the state of its checkpoint.

Redis knows, but is not reachable from outside the cluster. So `job_facts` asks a running worker, which has Redis'
address and password: it runs `python -m ebbtide.jobs.checkpoints where JOB` in the worker's container, with the
operator's right to `pods/exec`. `explain_job` turns the answer into lines and is pure.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import cast

from controllers.adapters.kube_api import ApiError
from ebbtide.operate.api import CannotOperate, OperatorApi, items
from ebbtide.operate.objects import Document, at, parse_instant, rfc3339
from ebbtide.operate.why.pod_exec import run_in_pod
from ebbtide.text.counts import several
from ebbtide.text.durations import whole_minutes
from ebbtide.text.one_line import collapsed
from ebbtide.vocabulary.controller_config import ControllerConfig, PoolPolicy
from ebbtide.vocabulary.labels import WORKLOAD

_CONTAINER = "worker"
_COMMAND = ("python", "-m", "ebbtide.jobs.checkpoints", "where", "--")
_MISSING = ("No module named", "invalid choice: 'where'", "executable file not found")


def job_facts(api: OperatorApi, config: ControllerConfig, job: str) -> Document:
    """Return the answer of the first worker that gives one, RQ's pools first, and those of message brokers last: their
    workers know Redis, where they report.

    Raises `ApiError`, and `CannotOperate` if no worker answers or no job has this id.
    """
    pools = sorted(config.pools, key=lambda pool: (pool.broker is not None, pool.source != "rq"))
    limit = _limit_of_brokers(pools)
    if pools and pools[0].broker is not None:
        raise CannotOperate(f"job {job} cannot be looked up: {limit}")
    refusals: list[str] = []
    for pool in pools:
        pod = _running_pod(api, pool)
        if pod is None:
            continue
        try:
            return _existing(_answer(api, pool, pod, job), job, limit)
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
    """One pod gave no answer; another may."""


def _running_pod(api: OperatorApi, pool: PoolPolicy) -> str | None:
    pods = items(api, f"/api/v1/namespaces/{pool.namespace}/pods", labelSelector=f"{WORKLOAD}={pool.deployment}")
    running = [pod for pod in pods if at(pod, "status", "phase") == "Running"]
    running.sort(key=_is_leaving)  # a pod that finishes its last job still answers
    return next((str(pod["metadata"]["name"]) for pod in running), None)


def _is_leaving(pod: Document) -> bool:
    ready = any(at(status, "ready") for status in at(pod, "status", "containerStatuses") or ())
    return bool(at(pod, "metadata", "deletionTimestamp")) or not ready


def _answer(api: OperatorApi, pool: PoolPolicy, pod: str, job: str) -> Document:
    path = f"/api/v1/namespaces/{pool.namespace}/pods/{pod}"
    try:
        completed = run_in_pod(api, path, _CONTAINER, [*_COMMAND, job])
    except ApiError as error:
        if error.status == 403:  # the server does not always name the missing right
            needed = f"wanted the rights to get and create pods/exec in {pool.namespace}"
            raise ApiError(403, f"{str(error).rstrip(': ')}; {needed}") from error
        if error.status == 401:
            raise
        raise _NoAnswer(collapsed(error)) from error
    if any(words in completed.message for words in _MISSING):
        raise _NoAnswer(f"its image has no ebbtide-jobs of this release ({completed.message})")
    try:
        document: object = json.loads(completed.out) if completed.code == 0 else None
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise _NoAnswer(completed.message or f"found {completed.out[:60]!r}, wanted JSON")
    return cast("Document", document)


def _limit_of_brokers(pools: Sequence[PoolPolicy]) -> str:
    """Return what is not known of jobs that a message broker holds, and the next step; empty without such pools."""
    names = [pool.name for pool in pools if pool.broker is not None]
    if not names:
        return ""
    return (
        f"the jobs of {', '.join(names)} are in a message broker, which shows how many there are and not where one is; "
        f"ebbtide why pool {names[0]} shows these counts"
    )


def _existing(document: Document, job: str, limit: str) -> Document:
    if document.get("rq") is None and document.get("checkpoint") is None:
        raise CannotOperate(
            f"no job {job}: Redis has neither an RQ job nor a checkpoint with this id. RQ forgets a job when its "
            f"result expires; for jobs of Celery and of lists, only the checkpoint is known{limit and f'; {limit}'}",
            2,
        )
    return document


def explain_job(document: Document, config: ControllerConfig, now: datetime) -> list[str]:
    """Return sentences: where the job is, then the state of its checkpoint."""
    return [_place(document, config, now), *_checkpoint(document, now)]


def _place(document: Document, config: ControllerConfig, now: datetime) -> str:
    job, rq = f"Job {document.get('job')}", document.get("rq")
    if rq is None:
        return f"{job} is not an RQ job, or RQ has forgotten it: only its checkpoint is known."
    status, queue = at(rq, "status"), at(rq, "queue")
    pools = [pool.name for pool in config.pools if pool.source == "rq" and queue in pool.queues]
    source = f"queue {queue} of pool {pools[0]}" if pools else f"queue {queue}, which no pool reads"
    if status == "queued":
        position = at(rq, "position")
        if position is None:
            return f"{job} was just taken from its queue, or is between two states: {source}. Ask again."
        return f"{job} waits: number {position} of {at(rq, 'waiting')} in {source}."
    if status == "started":
        where = f"pod {at(rq, 'pod')}" if at(rq, "pod") else f"worker {at(rq, 'worker')}, which is gone"
        late = "; its heartbeat is overdue, so another worker takes it soon" if at(rq, "silent") else ""
        return f"{job} runs on {where}, begun{_since(at(rq, 'since'), now)}: {source}{late}."
    if at(rq, "ended"):
        error = f": {at(rq, 'error')}" if at(rq, "error") else ""
        return f"{job} has ended, {status}{_since(at(rq, 'ended'), now)}, {source}{error}."
    return f"{job} is {status or 'in no state'} in RQ's words: {source}."


def _checkpoint(document: Document, now: datetime) -> list[str]:
    checkpoint = document.get("checkpoint")
    if not checkpoint:
        return ["It has opened no checkpoint."]
    saved = at(checkpoint, "saved")
    state = f"step {at(checkpoint, 'step')}, saved{_since(saved, now)}" if saved else "opened, nothing saved yet"
    attempt = at(checkpoint, "token") or "?"
    lines = [f"Its checkpoint: {state}. Attempt {attempt}: each return to the queue counts as one too."]
    deaths = int(at(checkpoint, "deaths") or 0)
    after = "since that save" if saved else "so far"
    if deaths:
        lines.append(f"It ended hard {several(deaths, 'time')} {after}; the third time fails it.")
    if at(checkpoint, "problem"):
        lines.append(f"The last problem: {at(checkpoint, 'problem')}.")
    return lines


def _since(instant: object, now: datetime) -> str:
    """Format as ` 5 min ago (2026-11-20T15:00:00Z)`; empty without an instant."""
    parsed = parse_instant(instant)
    return "" if parsed is None else f" {whole_minutes(now - parsed)} ago ({rfc3339(parsed.astimezone(UTC))})"
