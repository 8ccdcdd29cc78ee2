"""Pulumi components, one subpackage per concern.

Public names are importable from here: `from components import NodeGroup, NodeGroupArgs`. Each name is loaded on first
access (PEP 562), so that an import loads only what it needs: `pulumi_aws` takes seconds. Type tokens and resource names
do not depend on modules, so moving a module changes no live stack.
"""
# ruff: noqa: F401 - these imports are re-exports
# pyright: reportUnusedImport=false

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what the table below says, for type checkers and editors
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

_MODULES = {
    "aws.add_ons": ("ClusterAddOns", "ClusterAddOnsArgs"),
    "aws.cluster": ("Cluster", "ClusterArgs"),
    "aws.network": ("Network", "NetworkArgs"),
    "aws.node_group": ("NodeGroup", "NodeGroupArgs"),
    "cluster.autoscaler": ("Autoscaler",),
    "cluster.evictions": ("Evictions", "EvictionsArgs"),
    "cluster.existing": ("ExistingCluster", "ExistingClusterArgs"),
    "cluster.gpu_daemons": ("DevicePlugin", "GpuExporter"),
    "cluster.namespaces": (
        "Namespaces",
        "OwnNamespace",
        "OwnNamespaceArgs",
        "RaySpaces",
        "RaySpacesArgs",
        "ServingSpaces",
        "ServingSpacesArgs",
    ),
    "cluster.network_policies": ("NetworkPolicies", "NetworkPoliciesArgs"),
    "context": ("StackContext",),
    "controller.controller": ("Controller", "ControllerArgs"),
    "controller.workloads": ("WorkloadController", "WorkloadControllerArgs"),
    "images": ("ImageSource", "image_source"),
    "monitoring.bundled": ("BundledPrometheus", "BundledPrometheusArgs"),
    "monitoring.existing": (
        "Dashboards",
        "DashboardsArgs",
        "ExistingPrometheus",
        "ExistingPrometheusArgs",
        "FilesForPrometheus",
    ),
    "monitoring.exporter": ("Exporter", "ExporterArgs"),
    "ownership": ("OwnershipTable",),
    "pods.egress": ("Egress", "egress_of"),
    "pods.job": ("CronJob", "Job", "JobArgs"),
    "pods.priorities": ("Priorities",),
    "pods.secrets": ("Secrets", "SecretsArgs"),
    "pods.worker_pool": ("WorkerPool", "WorkerPoolArgs"),
    "pods.workload": ("Workload", "WorkloadArgs"),
    "ray.cluster": ("RayCluster", "RayClusterArgs"),
    "ray.operator": ("OperatorArgs", "RayOperator"),
    "redis.queues": ("Redis", "RedisArgs"),
    "serving.envoy_gateway": ("EnvoyGateway", "EnvoyGatewayArgs"),
    "serving.gateway": ("Gateway", "GatewayArgs"),
    "serving.keda": ("Keda", "KedaArgs"),
    "serving.prometheus_access": ("PrometheusAccess", "PrometheusAccessArgs"),
    "serving.service": ("Service", "ServiceArgs"),
    "serving.vertical": (
        "VerticalAutoscaling",
        "VerticalAutoscalingArgs",
        "VerticalAutoscaler",
        "VerticalAutoscalerArgs",
    ),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
