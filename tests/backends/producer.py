"""Sends Celery tasks from the framework's own environment: one line `name seconds [countdown]` in, one line out.

With TEST_STORE they are trainings of 12 steps that keep checkpoints there, and `seconds` is a step's. With TEST_KEEP
they are jobs of `keeping`.
"""

import json
import os
import sys

from celery_app import job, keeping, train

for line in sys.stdin:
    name, seconds, countdown = line.split()
    store = os.environ.get("TEST_STORE")
    short = keeping if "TEST_KEEP" in os.environ else job
    task, given = (train, (name, 12, float(seconds), store)) if store else (short, (name, float(seconds)))
    route = json.loads(os.environ.get("TEST_ROUTE", "{}"))
    task.apply_async(given, countdown=float(countdown) or None, **route)  # pyright: ignore[reportFunctionMemberAccess] - Celery makes tasks of them
    print("sent", flush=True)
