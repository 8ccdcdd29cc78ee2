"""The keys of a stack file's sections."""

from ebbtide.settings.file.document import OURS
from ebbtide.settings.file.entries import RAY, SERVICES
from ebbtide.settings.sections.secrets import DIGEST_KEY, SECRETS

BASE = OURS + "base"
CUSTOMER = OURS + "customer"
HOURS = OURS + "businessHours"
NETWORK = OURS + "network"
CLUSTER = OURS + "cluster"
GROUPS = OURS + "nodeGroups"
IMAGES = OURS + "images"
EGRESS = OURS + "egress"
REDIS = OURS + "redis"
REDIS_PASSWORD = OURS + "redisPassword"
CONTROLLER = OURS + "controller"
WORKLOADS = OURS + "workloads"
WORKERS = OURS + "workers"
JOBS = OURS + "jobs"
CRON_JOBS = OURS + "cronJobs"
ADOPTED = OURS + "adopted"
SERVING = OURS + "serving"
MONITORING = OURS + "monitoring"
COSTS = OURS + "costs"
ROLLOUT = OURS + "rollout"
EXCEPTIONS = OURS + "exceptions"

PODS = (WORKLOADS, SERVICES, WORKERS, JOBS, CRON_JOBS, RAY)
"""Sections with pods."""

KEYS = (
    BASE,
    CUSTOMER,
    HOURS,
    NETWORK,
    CLUSTER,
    GROUPS,
    IMAGES,
    EGRESS,
    REDIS,
    REDIS_PASSWORD,
    SECRETS,
    DIGEST_KEY,
    CONTROLLER,
    WORKLOADS,
    WORKERS,
    JOBS,
    CRON_JOBS,
    RAY,
    SERVICES,
    ADOPTED,
    SERVING,
    MONITORING,
    COSTS,
    ROLLOUT,
    EXCEPTIONS,
)
