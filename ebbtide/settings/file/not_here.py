"""Hints for things that Ebbtide does not have; a page names the alternatives."""

from collections.abc import Mapping, Sequence

from ebbtide.text.pages import page_command

PAGE = "not-here"

_NAMES = {
    "queues": "activemq amqp beanstalk bullmq gearman kafka kinesis nats pubsub pulsar rabbit rabbitmq resque "
    "servicebus sidekiq sqs taskiq temporal",
    "daemonsets": "daemon daemons daemonset daemonsets",
    "nodes": "fargate karpenter launchtemplate nodeclass nodeclasses nodepool nodepools windows",
    "clouds": "aks azure digitalocean doks gcp gke k3s kind kops minikube oke onprem openshift",
    "languages": "csharp dotnet go golang java javascript language nodejs ruby runtime rust typescript",
    "objects": "crds helm helmcharts kustomize manifests",
}


def page_section(section: str) -> str:
    """Return the hint that names a section of the page."""
    return f"{page_command(f'{PAGE}#{section}')} says what to use instead"


def not_here(name: str) -> str:
    """Return the hint for a key or a value that the page covers; empty for others."""
    plain = name.removeprefix("ebbtide:").replace("-", "").replace("_", "").lower()
    return next((page_section(section) for section, names in _NAMES.items() if plain in names.split()), "")


_SIZES = ("cpu, memory and gpu, which are its requests; limits has its limits", ("cpu", "memory", "gpu", "limits"))
_KEYS_FOR: Mapping[str, Sequence[tuple[str, tuple[str, ...]]]] = {
    **dict.fromkeys(
        ("resources", "requests", "limits"),
        (_SIZES, ("cpu, memory and gpu", ("cpu", "memory", "gpu")), ("cpu and memory", ("cpu", "memory"))),
    ),
    "livenessProbe": [("probes.liveness", ("probes",))],
    "readinessProbe": [("probes.readiness", ("probes",))],
    "startupProbe": [("probes.startup", ("probes",))],
    "containerPort": [("ports", ("ports",))],
    "volumeMounts": [("volumes, each with its path", ("volumes",))],
    "serviceAccountName": [("serviceAccount", ("serviceAccount",))],
    "priorityClassName": [("priority", ("priority",))],
    "minReplicas": [("min", ("min",)), ("scale.min", ("scale",))],
    "maxReplicas": [("max", ("max",)), ("scale.max", ("scale",))],
    "nodeSelector": [("nodeGroup", ("nodeGroup",)), ("pod.nodeSelector", ("pod",))],
    **{
        key: [(f"pod.{key}", ("pod",))]
        for key in (
            "affinity",
            "tolerations",
            "initContainers",
            "hostAliases",
            "dnsConfig",
            "topologySpreadConstraints",
        )
    },
}
"""Ebbtide's keys for those of Kubernetes' manifests: the first ones that all exist where the key was written."""


def in_kubernetes(key: str, keys: Sequence[str]) -> str:
    """Return the hint for a key of a Kubernetes manifest; empty for others."""
    for instead, needed in _KEYS_FOR.get(key, ()):
        if set(needed) <= set(keys):
            return f"the {'keys here are' if len(needed) > 1 else 'key here is'} {instead}"
    return ""
