"""The sections of a stack file: their keys, and where each of them has pods.

`StackSettings` has the models of the sections, and describes them for the schema.
"""

from typing import NamedTuple

from ebbtide.settings.file.document import OURS

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
BROKERS = OURS + "brokers"
SECRETS = OURS + "secrets"
DIGEST_KEY = OURS + "digestKey"
CONTROLLER = OURS + "controller"
WORKLOADS = OURS + "workloads"
WORKERS = OURS + "workers"
JOBS = OURS + "jobs"
CRON_JOBS = OURS + "cronJobs"
RAY = OURS + "ray"
SERVICES = OURS + "services"
ADOPTED = OURS + "adopted"
SERVING = OURS + "serving"
MONITORING = OURS + "monitoring"
COSTS = OURS + "costs"
ROLLOUT = OURS + "rollout"
EXCEPTIONS = OURS + "exceptions"

ENCRYPTED = (SECRETS, REDIS_PASSWORD, DIGEST_KEY)
"""Keys that may hold encrypted values."""

VARIANTS = "variants"
"""Key of a service's variants."""

EACH = "*"
ENTRY = ()


class Words(NamedTuple):
    """Words of messages for one entry of a section."""

    entry: str
    line: str  # at the beginning of its line in the output of `check`
    ending: str  # of another name for it, in an example


class Section(NamedTuple):
    """A section. Those with pods have named entries."""

    key: str
    field: str = ""  # of StackSettings; empty for a key that it leaves out
    pods: tuple[tuple[str, ...], ...] = ()  # locations of pods in an entry; EACH matches every key
    lasting: bool = False  # its pods stay without work
    created: bool = True  # Ebbtide creates its pods
    worker: Words | None = None  # its pods have the names of their entries, and are in the workers' namespace


SECTIONS = (
    Section(BASE),
    Section(CUSTOMER, "customer"),
    Section(HOURS, "business_hours"),
    Section(NETWORK, "network"),
    Section(CLUSTER, "cluster"),
    Section(GROUPS, "node_groups"),
    Section(IMAGES, "images"),
    Section(EGRESS, "egress"),
    Section(REDIS, "redis"),
    Section(REDIS_PASSWORD),
    Section(BROKERS, "brokers"),
    Section(SECRETS, "secrets"),
    Section(DIGEST_KEY),
    Section(CONTROLLER, "controller"),
    Section(WORKLOADS, "workloads", pods=(ENTRY,), lasting=True),
    Section(WORKERS, "workers", pods=(ENTRY,), worker=Words("worker pool", line="workers", ending="pool")),
    Section(JOBS, "jobs", pods=(ENTRY,), worker=Words("job", line="job", ending="once")),
    Section(CRON_JOBS, "cron_jobs", pods=(ENTRY,), worker=Words("cron job", line="cron job", ending="nightly")),
    Section(RAY, "ray", pods=(("head",), ("groups", EACH))),
    Section(SERVICES, "services", pods=((VARIANTS, EACH),), lasting=True),
    Section(ADOPTED, "adopted", pods=(ENTRY,), lasting=True, created=False),
    Section(SERVING, "serving"),
    Section(MONITORING, "monitoring"),
    Section(COSTS, "costs"),
    Section(ROLLOUT, "rollout"),
    Section(EXCEPTIONS, "exceptions"),
)

KEYS = tuple(section.key for section in SECTIONS)
FIELDS = {section.key: section.field for section in SECTIONS if section.field}
_WITH_PODS = sorted((section for section in SECTIONS if section.pods), key=lambda section: not section.lasting)
PODS_IN = {section.key: section.pods for section in _WITH_PODS}
"""Locations of pods by section. Lasting pods come first: pods are listed and packed in this order."""

PODS = tuple(section.key for section in _WITH_PODS if section.created)
"""Sections with pods that Ebbtide creates."""

LASTING = tuple(section.key for section in _WITH_PODS if section.lasting)
"""Sections with pods that stay without work."""

WORKER_WORDS = {section.key: section.worker for section in SECTIONS if section.worker is not None}
"""Words of messages, by section with pods in the workers' namespace."""
