"""The stack files and the jobs of known months."""

from collections.abc import Mapping, Sequence
from random import Random

from ebbtide.lab.ledger.month import Month
from ebbtide.lab.simulator.trace.traces import Job, find_trace
from ebbtide.settings import StackSettings
from ebbtide.settings.load import stack_of_text
from ebbtide.text.durations import DAY_S, HOUR_S

_HEAD = """\
config:
  ebbtide:customer: acme
  ebbtide:businessHours: {{ timezone: {zone}, week: {week} }}
  {region}
"""
_POOL = "source: {{ queues: [{name}] }}, image: 'example.com/{name}:1', max: {max}, longestJob: 12h"
_WEEK = '{ mon-fri: "08:00-18:00" }'
_SLEEPS = "sleep: { when: outsideBusinessHours }"
_CHECKPOINTS = "checkpoints: { store: 's3://acme/prod', every: 5m, saveWithin: 90s, required: true }"


def _service(name: str, replicas: int, cpu: str, memory: str, more: str = "") -> str:
    fields = f"image: 'example.com/{name}:1', replicas: {replicas}, cpu: {cpu}, memory: {memory}"
    return f"    {name}: {{ category: flexible, {fields}{', ' + more if more else ''} }}\n"


def _pool(name: str, most: int, cpu: str, memory: str, more: str = "") -> str:
    fields = _POOL.format(name=name, max=most)
    return f"    {name}: {{ {fields}, cpu: {cpu}, memory: {memory}{', ' + more if more else ''} }}\n"


def _stack(
    groups: str,
    services: str,
    pools: str,
    *,
    zone: str = "Europe/Berlin",
    week: str = _WEEK,
    region: str = "aws:region: us-east-1",
    more: str = "",
) -> str:
    head = _HEAD.format(zone=zone, week=week, region=region)
    return f"{head}{groups}  ebbtide:workloads:\n{services}  ebbtide:workers:\n{pools}{more}"


def _groups(*groups: str) -> str:
    return "  ebbtide:nodeGroups:\n" + "".join(f"    {group}\n" for group in groups)


def _existing(shapes: str, pools: str = "") -> str:
    selectors = "{ fixed: { pool: a }, flexible: { pool: b } }"
    handed = f", nodePools: {pools}" if pools else ""
    cluster = f"kind: existing, context: x, nodeSelectors: {selectors}{handed}, nodeShapes: {shapes}"
    return f"  ebbtide:cluster: {{ {cluster} }}\n"


_FIXED = "fixed: { instanceTypes: [m7i.2xlarge], min: 3, max: 4 }"
_API = _service("api", 4, "2", "8Gi", _SLEEPS)
_WEB = _service("web", 6, "2", "6Gi")
_TEAM = (
    _service("api", 3, "1500m", "3Gi", _SLEEPS) + _service("site", 2, "500m", "1Gi") + _service("hub", 2, "1", "4Gi")
)
_TRAIN = _pool("train", 30, "4", "14Gi")
_PREP = _pool("prep", 30, "1500m", "5Gi")

STACKS: Mapping[str, str] = {
    "one type": _stack(_groups(_FIXED, "flexible: { instanceTypes: [m7i.4xlarge], max: 24 }"), _API + _WEB, _TRAIN),
    "services": _stack(
        _groups(_FIXED, "flexible: { instanceTypes: [m7i.2xlarge, m6i.2xlarge], max: 30 }"),
        _TEAM + _WEB + _service("search", 5, "3", "10Gi", _SLEEPS) + _service("models", 3, "3", "10Gi"),
        _pool("prep", 40, "1500m", "5Gi"),
        zone="America/New_York",
        more="  ebbtide:costs: { pricingAssumption: compute-1y-no-upfront }\n",
    ),
    "two flexible groups": _stack(
        _groups(
            _FIXED,
            "flexible: { instanceTypes: [m7i.2xlarge], max: 20 }",
            "memory: { kind: flexible, instanceTypes: [r7i.4xlarge], max: 12 }",
        ),
        _TEAM + _WEB + _service("cache", 3, "2", "24Gi"),
        _PREP + _pool("join", 16, "5", "40Gi", "nodeGroup: memory"),
    ),
    "karpenter": _stack(
        _groups(_FIXED, "flexible: { instanceTypes: [m7i.2xlarge, m7i.4xlarge], max: 24, provisioner: karpenter }"),
        _TEAM,
        _PREP,
    ),
    "karpenter, three sizes": _stack(
        _groups(
            _FIXED,
            "flexible: { instanceTypes: [m7i.xlarge, m7i.2xlarge, m7i.4xlarge], max: 30, provisioner: karpenter }",
        ),
        _API + _TEAM.replace("api:", "desk:"),
        _TRAIN + _PREP,
        zone="America/New_York",
    ),
    "gpus": _stack(
        _groups(
            _FIXED,
            "flexible: { instanceTypes: [m7i.4xlarge], max: 24 }",
            "gpu: { instanceTypes: [g6.2xlarge], max: 16 }",
            "gpu-large: { kind: gpu, instanceTypes: [g6.8xlarge], max: 6 }",
        ),
        _API + _WEB,
        _pool("prep", 20, "3", "12Gi")
        + _pool("tune", 16, "7", "28Gi", "gpu: 1")
        + _pool("large", 6, "30", "110Gi", "gpu: 1"),
    ),
    "spot": _stack(
        _groups(
            _FIXED,
            "flexible: { instanceTypes: [m7i.2xlarge], max: 20 }",
            "spot: { kind: spot, instanceTypes: [m7i.4xlarge, m6a.4xlarge, m6i.4xlarge, m7i-flex.4xlarge], max: 12 }",
        ),
        _API + _TEAM.replace("api:", "desk:"),
        _pool("batch", 30, "3500m", "13Gi", f"nodeGroup: spot, fallback: flexible, {_CHECKPOINTS}") + _PREP,
    ),
    "existing, autoscaler": _stack(
        _existing(
            "{ fixed: { instanceTypes: [m7i.2xlarge], max: 3 }, "
            "flexible: { instanceTypes: [m7i.4xlarge], max: 20, autoscaled: true } }"
        ),
        _API + _WEB,
        _TRAIN,
    ),
    "existing, karpenter": _stack(
        _existing(
            "{ fixed: { instanceTypes: [m7i.2xlarge], max: 3 }, "
            "flexible: { instanceTypes: [m7i.2xlarge, m7i.4xlarge], max: 20 } }",
            "{ flexible: [general] }",
        ),
        _API + _TEAM.replace("api:", "desk:"),
        _PREP,
    ),
}


BEFORE: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "one type": {"fixed": (3, "m7i.2xlarge"), "flexible": (8, "m7i.4xlarge")},
    "services": {"fixed": (3, "m7i.2xlarge"), "flexible": (12, "m7i.2xlarge")},
    "karpenter": {"fixed": (3, "m7i.2xlarge"), "flexible": (8, "m7i.2xlarge")},
}
"""Nodes and their type, by stack and group."""


def stack_named(name: str) -> StackSettings:
    fleet = ", ".join(f"{group}: {_fleet(name, *nodes)}" for group, nodes in BEFORE.get(name, {}).items())
    text = STACKS[name]
    if fleet:
        costs = f"ebbtide:costs: {{ before: {{ {fleet} }}"
        text = text.replace("ebbtide:costs: {", f"{costs},") if "ebbtide:costs" in text else f"{text}  {costs} }}\n"
    return stack_of_text(text, stack=name, file=name)


def _fleet(stack: str, count: int, kind: str) -> str:
    return f"{{ nodes: {count}, instanceType: {kind} }}" if "karpenter" in stack else str(count)


DEMANDS = ("office", "steady", "nights", "openb2023-a", "itp2021-a", "surf2022-july")


def jobs_of(settings: StackSettings, month: Month, demand: str, seed: int, load: float = 1.0) -> Sequence[Job]:
    """Return jobs for each pool of the stack: drawn, or with the times and durations of a trace, which is repeated."""
    chance = Random(seed)
    jobs: list[Job] = []
    for name, pool in sorted(settings.workers.items()):
        per_day = load * pool.max * chance.uniform(1.0, 3.0)
        for at, duration_s in _times(demand, month.hours * HOUR_S, per_day, chance):
            jobs.append(Job(at, duration_s, name, 1.0, 1.0, float(pool.gpu.count)))
    return jobs


def _times(demand: str, end_s: float, per_day: float, chance: Random) -> Sequence[tuple[float, float]]:
    if demand in ("office", "steady", "nights"):
        return [
            (day * DAY_S + _hour(demand, chance) * HOUR_S, _duration(chance))
            for day in range(int(end_s // DAY_S))
            for _ in range(round(per_day * (0.25 if demand == "office" and day % 7 > 4 else 1.0)))
        ]
    trace = find_trace(demand)
    days = trace.days // 7 * 7  # entire weeks, so that weekdays stay
    short = [(job.submitted_at, job.duration_s) for job in trace.jobs if job.duration_s <= 8 * HOUR_S]
    short = [(at, duration_s) for at, duration_s in short if at < days * DAY_S]
    share = min(1.0, per_day * days / len(short))
    chosen = [(at, max(60.0, duration_s)) for at, duration_s in short if chance.random() < share]
    repeats = range(int(end_s // (days * DAY_S)) + 1)
    return [
        (at + week * days * DAY_S, length)
        for week in repeats
        for at, length in chosen
        if at + week * days * DAY_S < end_s
    ]


def _hour(demand: str, chance: Random) -> float:
    if demand == "steady":
        return chance.uniform(0, 24)
    return chance.gauss(13.0, 3.0) % 24 if demand == "office" else chance.gauss(23.0, 3.0) % 24


def _duration(chance: Random) -> float:
    return min(10 * HOUR_S, max(30.0, chance.lognormvariate(7.4, 1.1)))
