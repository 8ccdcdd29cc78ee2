"""A stack with services, and the same with something changed."""

from functools import cache

from ebbtide.settings import StackSettings
from ebbtide.settings.load import stack_of_text
from tests.builders.settings import shortest

SERVICES = """\
ebbtide:monitoring: { prometheus: bundled }
ebbtide:nodeGroups: { fixed: { max: 8 }, flexible: { max: 12 }, gpu: { max: 12 } }
ebbtide:services:
  embedder:
    ports: { http: 8000, metrics: 9100 }
    port: http
    probes: { readiness: { http: /healthz, port: http } }
    longestRequest: 60s
    requestTakes: 150ms
    slo: { p95: 400ms, errors: 0.1% }
    scale: { metrics: { inFlight: 3, latency: 300ms }, min: 2, max: 12 }
    startsWithin: 90s
    route: { host: models.acme.internal, path: /embed, model: embedder-v3 }
    variants:
      small: { hardware: cpu, image: "registry.example.com/ml/embedder-small:3", cpu: 3, memory: 12Gi }
      large:
        hardware: gpu
        image: registry.example.com/ml/embedder:3
        cpu: 3
        memory: 12Gi
        gpu: 1
        when: { header: "x-model-size: large" }
  ranker:
    image: registry.example.com/ml/ranker:1
    cpu: 1
    memory: 2Gi
    ports: { http: 8000 }
    port: http
    probes: { readiness: { tcp: http } }
    longestRequest: 10s
    scale: { metrics: { cpu: 70% }, min: 1, max: 6 }
"""


def with_services(*changes: tuple[str, str], more: str = "") -> str:
    """The stack file with these texts replaced, each of which must be there."""
    text = SERVICES + more
    for old, new in changes:
        if old not in text:
            raise ValueError(f"{old!r} is not in the stack file")
        text = text.replace(old, new)
    return shortest(more=text)


@cache
def services_stack(*changes: tuple[str, str], more: str = "") -> StackSettings:
    return stack_of_text(with_services(*changes, more=more), stack="acme", file="Pulumi.acme.yaml")


ON_SPOT = (
    ("gpu: { max: 12 } }", "gpu: { max: 12 }, spot: { max: 12 } }"),
    (
        "memory: 12Gi }\n",
        """memory: 12Gi, scale: { metrics: { inFlight: 4.5 }, min: 2, max: 12 } }
      cheap:
        spot: true
        image: registry.example.com/ml/embedder-small:3
        cpu: 3
        memory: 12Gi
        scale: { metrics: { inFlight: 3 }, min: 1, max: 20 }
""",
    ),
)
"""Changes: the embedder with a variant on spot nodes, `cheap`, beside `small`."""


@cache
def spot_stack(*changes: tuple[str, str], more: str = "") -> StackSettings:
    return services_stack(*ON_SPOT, *changes, more=more)
