"""Sends Celery tasks from the framework's own environment: one line `name seconds [countdown]` in, one line out.

With TEST_STORE they are trainings of 12 steps that keep checkpoints there, and `seconds` is a step's.
"""

import os
import sys

from celery_app import job, train

for line in sys.stdin:
    name, seconds, countdown = line.split()
    store = os.environ.get("TEST_STORE")
    task, given = (train, (name, 12, float(seconds), store)) if store else (job, (name, float(seconds)))
    task.apply_async(given, countdown=float(countdown) or None)  # pyright: ignore[reportFunctionMemberAccess] - Celery makes tasks of them
    print("sent", flush=True)
