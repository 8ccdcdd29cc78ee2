"""The controllers of a stack: the scaler, and the workload controller if the stack needs it."""

import pulumi

from components.cluster.namespaces import RaySpaces
from components.controller.controller import Controller, ControllerArgs
from components.controller.workloads import WorkloadController, WorkloadControllerArgs, token_file
from components.pods.redis_access import SECRET, controllers_endpoint
from components.redis.queues import Redis
from ebbtide.settings.capacity.process_documents import controller_config, has_workloads, workloads_config
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.pods.aws import AwsRights, QueueAccess
from ebbtide.settings.sections.ray import TOKEN_KEY, token_secret
from ebbtide.vocabulary.labels import CONTROLLER, NAMESPACE
from ebbtide.vocabulary.workloads import WorkloadsConfig
from infra.site import Site


def scaler(site: Site, redis: Redis, options: pulumi.ResourceOptions) -> Controller:
    settings = site.settings
    args = ControllerArgs(
        stack=site.stack,
        config=controller_config(settings, controllers_endpoint(settings.redis)),
        nodes=_document(settings) if settings.budgeted_node_pools else None,
        replicas=settings.controller.replicas,
        redis_authority=redis.authority,
        redis_secret=settings.redis.controller.secret if settings.redis.controller else SECRET,
        broker_secrets={
            name: broker.controller.secret for name, broker in settings.brokers.items() if broker.controller is not None
        },
    )
    counted = {queue: QueueAccess.COUNT for pool in settings.pools_on_sqs for queue in pool.source.queues}
    if counted:
        rights = AwsRights().model_copy(update={"queues": counted})  # no stack file may grant this access
        options = site.with_rights("controller", CONTROLLER, rights, NAMESPACE, options)
    return Controller("controller", args, options)


def workload_controller(site: Site, ray: RaySpaces | None, options: pulumi.ResourceOptions) -> None:
    """Build the controller after the Ray clusters, so that a destroy deletes it first: it would restore a spec that a
    destroy changes. It finds autoscalers when they appear.
    """
    settings = site.settings
    if not has_workloads(settings):
        return
    hubs = {name: pod.sleep.hub for name, pod in settings.all_workloads.items() if pod.sleep and pod.sleep.sleeps}
    args = WorkloadControllerArgs(
        stack=site.stack,
        config=_document(settings),
        ray_namespaces={} if ray is None else ray.names,
        tokens={name: token_secret(name) for name in settings.ray},
        hub_tokens={name: hub.secret for name, hub in hubs.items() if hub is not None},
    )
    WorkloadController("workload-controller", args, options)


def _document(settings: StackSettings) -> WorkloadsConfig:
    return workloads_config(settings, lambda name: token_file(name, TOKEN_KEY))
