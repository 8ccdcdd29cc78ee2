"""Hints for things that Ebbtide does not have; a page names the alternatives."""

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
