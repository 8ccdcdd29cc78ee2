"""A team's own framework, which reports its worker as idle or busy."""

import os
import sys

from ebbtide.jobs.busy_report import BusyReport, Reporter
from redis import Redis


def connect() -> Redis:
    return Redis(host=os.environ["REDIS_HOST"], port=int(os.environ["REDIS_PORT"]))


report = BusyReport(Reporter(queues=["own"], hostname="pod-1", worker="pod-1.7"), connect, lambda: True)
report.start()
report.changed()
sys.stdin.read()
report.stopping()
report.finish()
