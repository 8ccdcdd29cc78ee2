"""A stack with workloads and a service that sleep."""

from ebbtide.settings.load import stack_of_text
from ebbtide.settings.model import StackSettings
from tests.builders.settings import shortest

BUNDLED = "ebbtide:monitoring: { prometheus: bundled }"
SLEEPS = "sleep: { when: outsideBusinessHours }"
_POD = 'image: "example.com/app:1", cpu: 1, memory: 2Gi'


def sleeping_text(*, board: str = SLEEPS, notes: str = SLEEPS, rank: str = SLEEPS, more: str = "") -> str:
    """A StatefulSet `board` with a claim, a Deployment `notes` of two, and a service `rank`; with these keys.

    `more`: sections.
    """
    probe = "probes: { readiness: { http: /, port: http } }"
    disk = "volumes: { data: { at: /data, perPod: 1Gi } }"
    served = "ports: { http: 8080 }"
    return shortest(
        more=f"""
        ebbtide:workloads:
          board: {{ {_POD}, kind: stateful-set, category: fixed, {disk}, {board} }}
          notes: {{ {_POD}, category: flexible, replicas: 2, {served}, {probe}, {notes} }}
        ebbtide:services:
          rank: {{ {_POD}, {served}, {probe}, port: http, longestRequest: 10s, startsWithin: 20m, {rank} }}
        {more}
        """
    )


def sleeping_stack(**keys: str) -> StackSettings:
    return stack_of_text(sleeping_text(**keys), stack="acme", file="Pulumi.acme.yaml")
