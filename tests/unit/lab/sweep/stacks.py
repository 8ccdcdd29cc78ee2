"""Small stacks and a trace of a few jobs as files, for sweeps whose replays take milliseconds."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ebbtide.lab.simulator.replay import ReplayOptions
from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.sweep.plan import SweepPlan, SweepRequest, plan_of

STACK = """config:
  aws:region: us-east-1
  ebbtide:customer: {customer}
  ebbtide:businessHours: {{ timezone: Europe/Berlin, week: {{ mon-fri: "08:00-18:00" }} }}
  ebbtide:workloads:
    api: {{ category: flexible, image: "r.example.com/api:1", replicas: 2, cpu: 1, memory: 2Gi }}
  ebbtide:workers:
    train:
      source: {{ kind: rq, queues: [train] }}
      image: r.example.com/train:1
      max: 3
      cpu: {cpu}
      memory: 8Gi
      longestJob: 12h
  ebbtide:costs: {{ tags: {{ cost-center: x }} }}
"""
HEADER = "submitted_at,duration_s,queue,cpu,memory_gib,gpu\n"


def a_stack_file(folder: Path, customer: str, cpu: int = 4) -> str:
    path = folder / f"Pulumi.{customer}.yaml"
    path.write_text(STACK.format(customer=customer, cpu=cpu))
    return str(path)


def a_trace_file(folder: Path, jobs: int = 12, cpu: int = 2) -> str:
    path = folder / "some-jobs.csv"
    rows = (f"{9 * 3600 + 700 * number},{300 + 90 * (number % 4)},q,{cpu},4,0\n" for number in range(jobs))
    path.write_text(HEADER + "".join(rows))
    return str(path)


def asked(stacks: Sequence[str], traces: Sequence[str], **changes: Any) -> SweepRequest:
    values: dict[str, Any] = {
        "vary": ["stabilizationWindow=30s,10m"],
        "seeds": (0,),
        "objective": "usd",
        "strategy": Strategy.FIXED_FLEXIBLE,
        "options": ReplayOptions(),
    }
    return SweepRequest(stacks=stacks, traces=traces, **{**values, **changes})


def a_plan(folder: Path, customers: Sequence[str] = ("acme", "bolt"), **changes: Any) -> SweepPlan:
    stacks = [a_stack_file(folder, name, cpu=4 + place) for place, name in enumerate(customers)]
    return plan_of(asked(stacks, [a_trace_file(folder)], **changes))
