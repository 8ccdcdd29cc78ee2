"""What the entrances of a stack need of its cluster."""

from ebbtide.settings.model import StackSettings


def ingress_wants(settings: StackSettings) -> tuple[str | None, ...]:
    """The ingress classes that the stack's Ingresses name, each once; None for the cluster's default class."""
    given = [workload.ingress for workload in settings.workloads.values()]
    return tuple(dict.fromkeys(ingress.class_ for ingress in given if ingress is not None))
