"""Sends Celery tasks from the framework's own environment: one line `name seconds [countdown]` in, one line out."""

import sys

from celery_app import job

for line in sys.stdin:
    name, seconds, countdown = line.split()
    job.apply_async(  # pyright: ignore[reportFunctionMemberAccess] - Celery makes a task of it
        (name, float(seconds)), countdown=float(countdown) or None
    )
    print("sent", flush=True)
