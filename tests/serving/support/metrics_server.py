"""metrics-server: what pods use now, CPU and memory, for HPAs that scale by them. It asks kubelets and keeps nothing.

EKS brings it as an add-on, which a control plane without AWS has not. While it is away HPAs keep their replicas.

Source: `manifests/base` of `sigs.k8s.io/metrics-server` at the version below.
"""

from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.apiregistration.v1 import APIService

from components.granting import grant_everywhere
from components.program import (
    Program,
    ProgramArgs,
    account,
    all_addresses,
    delegated_authentication,
    network_policy,
    probe,
    run,
    service,
    tcp,
)

if TYPE_CHECKING:
    from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict

NAME = "metrics-server"
VERSION = "v0.9.0"
IMAGE = f"registry.k8s.io/metrics-server/metrics-server:{VERSION}"
API = "v1beta1.metrics.k8s.io"

RULES: "list[PolicyRuleArgsDict]" = [
    {"api_groups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]},
    {"api_groups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]},
]

_PORT, _KUBELET = 10250, 10250
_SEEN_EVERY = 15  # seconds; HPAs look as often


class MetricsServer(pulumi.ComponentResource):
    def __init__(self, name: str, args: ProgramArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:MetricsServer", name, None, opts)
        rights = [
            account(name, NAME, args, parent=self),
            *grant_everywhere(name, NAME, RULES, home=args.namespace, parent=self),
            *delegated_authentication(name, NAME, args, parent=self),
        ]
        kubelets = [{"to": all_addresses(), "ports": tcp(_KUBELET)}]
        network_policy(name, NAME, args, listens=[_PORT], calls=kubelets, parent=self)  # pyright: ignore[reportArgumentType]
        behind = service(name, NAME, NAME, {"https": (443, _PORT)}, args, parent=self)
        runs = run(name, _program(), args, parent=self, after=rights)
        APIService(
            f"{name}-api",
            metadata={"name": API},
            spec={
                "group": "metrics.k8s.io",
                "version": "v1beta1",
                "group_priority_minimum": 100,
                "version_priority": 100,
                # It makes its certificate anew at each start, as its release does: nobody else could know it.
                "insecure_skip_tls_verify": True,
                "service": {"name": NAME, "namespace": args.namespace},
            },
            opts=pulumi.ResourceOptions(parent=self, depends_on=[runs, behind]),
        )
        self.register_outputs({})


def _program() -> Program:
    return Program(
        name=NAME,
        image=IMAGE,
        args=[
            "--cert-dir=/tmp",
            f"--secure-port={_PORT}",
            "--kubelet-preferred-address-types=InternalIP",
            "--kubelet-use-node-status-port",
            f"--metric-resolution={_SEEN_EVERY}s",
        ],
        ports={"https": _PORT},
        ready=probe("/readyz", _PORT, scheme="HTTPS"),
        alive=probe("/livez", _PORT, scheme="HTTPS", failures=6),
        cpu=100,
        memory=200,  # as its release asks for, enough for 100 nodes
        user=1000,
        mounts={"/tmp": {"name": "", "empty_dir": {}}},
    )
