"""The public API for a team's own Pulumi program: `run` and the component classes.

A program calls `run()`, which builds the stack of `stacks/Pulumi.<stack>.yaml`, and may add resources to the returned
stack. Each name loads on first access (PEP 562), since `pulumi_aws` takes seconds to import. Type tokens and resource
names do not depend on modules, so moving a class changes no live stack.
"""
# ruff: noqa: F401 - the imports below are the list of public classes
# pyright: reportUnusedImport=false

import ast
import gc
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.aws.add_ons import ClusterAddOns, ClusterAddOnsArgs
    from components.aws.cluster import Cluster, ClusterArgs
    from components.aws.network import Network, NetworkArgs
    from components.aws.node_group import NodeGroup, NodeGroupArgs
    from components.cluster.autoscaler import Autoscaler
    from components.cluster.evictions import Evictions, EvictionsArgs
    from components.cluster.existing import ExistingCluster, ExistingClusterArgs
    from components.cluster.gpu_daemons import DevicePlugin, GpuExporter
    from components.cluster.namespaces import (
        Namespaces,
        OwnNamespace,
        OwnNamespaceArgs,
        RaySpaces,
        RaySpacesArgs,
        ServingSpaces,
        ServingSpacesArgs,
    )
    from components.cluster.network_policies import NetworkPolicies, NetworkPoliciesArgs
    from components.context import StackContext
    from components.controller.controller import Controller, ControllerArgs
    from components.controller.workloads import WorkloadController, WorkloadControllerArgs
    from components.images import ImageSource, image_source
    from components.monitoring.bundled import BundledPrometheus, BundledPrometheusArgs
    from components.monitoring.existing import (
        Dashboards,
        DashboardsArgs,
        ExistingPrometheus,
        ExistingPrometheusArgs,
        FilesForPrometheus,
    )
    from components.monitoring.exporter import Exporter, ExporterArgs
    from components.ownership import OwnershipTable
    from components.pods.egress import Egress, egress_of
    from components.pods.job import CronJob, Job, JobArgs
    from components.pods.priorities import Priorities
    from components.pods.secrets import Secrets, SecretsArgs
    from components.pods.worker_pool import WorkerPool, WorkerPoolArgs
    from components.pods.workload import Workload, WorkloadArgs
    from components.program import ProgramArgs
    from components.ray.cluster import RayCluster, RayClusterArgs
    from components.ray.operator import OperatorArgs, RayOperator
    from components.redis.queues import Redis, RedisArgs
    from components.serving.envoy_gateway import EnvoyGateway, EnvoyGatewayArgs
    from components.serving.gateway import Gateway, GatewayArgs
    from components.serving.keda import Keda, KedaArgs
    from components.serving.prometheus_access import PrometheusAccess, PrometheusAccessArgs
    from components.serving.service import Service, ServiceArgs
    from components.serving.vertical import (
        VerticalAutoscaler,
        VerticalAutoscalerArgs,
        VerticalAutoscaling,
        VerticalAutoscalingArgs,
    )
    from infra.stack import Stack


def run() -> "Stack":
    """Build the stack that Pulumi runs, export its outputs, and return it.

    The stack file is in `stacks/` of the project, the folder of `Pulumi.yaml`.
    Raises: `pulumi.RunError` for an invalid stack file; Pulumi prints its text without a traceback.
    """
    gc.disable()  # the SDKs create half a million lasting objects, whose garbage collection takes a fifth of the run
    import pulumi

    from ebbtide.settings import StackInvalid, parse_stack
    from ebbtide.settings.file.contents import files_in
    from ebbtide.settings.load import STACKS, project_root

    if hidden := hidden_package("infra", "components"):
        raise pulumi.RunError(hidden)
    from infra.config import redis_password, stack_config, stack_secrets
    from infra.stack import compose

    name = pulumi.get_stack()
    root = pulumi.runtime.get_root_directory() or project_root()  # mocks and old CLIs pass no root
    try:
        settings = parse_stack(
            stack_config(), stack=name, file=f"{STACKS}/Pulumi.{name}.yaml", reader=files_in(Path(root) / STACKS)
        )
        stack = compose(
            settings, redis_password=redis_password(), secrets=stack_secrets(), new_token=lambda: token_hex(32)
        )
    except StackInvalid as error:
        raise pulumi.RunError(str(error)) from None
    pulumi.export("clusterName", stack.cluster_name)
    pulumi.export("ownership", stack.ownership.exported())
    pulumi.export("controllerConfig", stack.controller_document)
    return stack


def hidden_package(*names: str) -> str:
    """Return an error line if Python finds a foreign module in place of one of these packages; "" if it does not.

    The names are common, and Python first searches the folder of the program.
    """
    home = Path(__file__).parents[1]
    for name in names:
        spec = find_spec(name)
        if spec is not None and spec.origin != str(home / name / "__init__.py"):
            place = spec.origin or next(iter(spec.submodule_search_locations or []), "")
            return (
                f"{place}: hides Ebbtide's package {name!r}; rename it, or move it out of the folders of Python's path"
            )
    return ""


def __getattr__(name: str) -> object:
    module = _modules().get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


@cache
def _modules() -> dict[str, str]:
    """Return the module of each public class, from the imports above, so that each name is written only once."""
    tree = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in imports for alias in node.names}
