"""The Celery app that the workers of these tests run; imported in their environment, not in the tests' own."""

# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUntypedFunctionDecorator=false

import json
import os
from pathlib import Path
from typing import Any

from celery import Celery
from doing import do
from keeping import keep
from kombu import Exchange, Queue

URL = os.environ.get("TEST_BROKER") or os.environ["TEST_REDIS"]
app = Celery("ebbtide-test", broker=URL)
app.conf.update(
    task_acks_late=os.environ.get("TEST_ACKS", "late") == "late",
    worker_prefetch_multiplier=1,
    task_default_queue="train",
    task_ignore_result=True,
    worker_hijack_root_logger=False,
    broker_transport_options={
        "visibility_timeout": float(os.environ.get("TEST_VISIBILITY", "3600")),
        "unacked_restore_interval": float(os.environ.get("TEST_RESTORE", "10")),
        "unacked_restore_throttle": 1,
        **json.loads(os.environ.get("TEST_OPTIONS", "{}")),
    },
)
app.conf.update(json.loads(os.environ.get("TEST_CONF", "{}")))
if "TEST_QUEUES" in os.environ:
    topics = Exchange("ml", type="topic")
    bindings = [name.split("=") for name in os.environ["TEST_QUEUES"].split()]
    app.conf.task_queues = [Queue(name, *((topics, key[0]) if key else ())) for name, *key in bindings]
app.conf.worker_concurrency = int(os.environ.get("TEST_CONCURRENCY", "1"))
if os.environ.get("TEST_HOOKS") == "1":
    from ebbtide.jobs import celery_worker

    celery_worker.install(app)


@app.task(bind=True)
def job(self: Any, name: str, seconds: float) -> None:
    ledger = os.environ.get("TEST_LEDGER")
    if ledger and self.request.delivery_info.get("redelivered"):
        with Path(f"{ledger}.again").open("a") as flagged:
            flagged.write(f"{name}\n")
    do(name, seconds)


@app.task
def train(name: str, steps: int, pause: float, store: str) -> None:
    from ebbtide.jobs import checkpoint

    with checkpoint(store, every=0) as saved:
        for step in range(saved.load(default=0), steps):
            do(f"{name} {step}", pause)
            saved.offer(step + 1)
    do(f"{name} all", 0)


@app.task(autoretry_for=(ValueError,), retry_kwargs={"max_retries": 9, "countdown": 0})
def keeping(name: str, seconds: float) -> None:
    keep(name, seconds)
