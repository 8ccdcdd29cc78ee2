"""The monitoring of a stack: the exporter, dashboards, and a bundled or an existing Prometheus."""

from collections.abc import Sequence

import pulumi

from components.monitoring.bundled import BundledPrometheus, BundledPrometheusArgs
from components.monitoring.existing import (
    Dashboards,
    DashboardsArgs,
    ExistingPrometheus,
    ExistingPrometheusArgs,
    FilesForPrometheus,
)
from components.monitoring.exporter import Exporter, ExporterArgs
from components.monitoring.scraping import ALERTMANAGER_PORT, Scraping
from components.monitoring.targets import gpu_target, targets
from components.redis.queues import Redis
from ebbtide.monitoring.documents import rules_document
from ebbtide.settings.capacity.process_documents import exporter_config
from ebbtide.settings.sections.monitoring import ALERTMANAGER, PROMETHEUS, Discovery, PrometheusKind
from ebbtide.settings.sections.pods.aws import AwsRights
from ebbtide.vocabulary.labels import NAMESPACE
from infra.site import Site


def exporter(site: Site, redis: Redis, options: pulumi.ResourceOptions) -> Sequence[pulumi.Resource]:
    settings = site.settings
    if settings.monitoring.prometheus is PrometheusKind.NONE:
        return []
    args = ExporterArgs(stack=site.stack, config=exporter_config(settings, redis.endpoint))
    return [Exporter("exporter", args, options)]


def monitoring(site: Site, options: pulumi.ResourceOptions) -> None:
    """Build monitoring last: a cluster without the kinds of Prometheus' operator refuses these objects."""
    settings = site.settings.monitoring
    if settings.prometheus is PrometheusKind.NONE:
        return
    if settings.dashboards:
        args = DashboardsArgs(
            stack=site.stack,
            namespace=settings.namespace or NAMESPACE,
            timezone=site.settings.business_hours.timezone,
        )
        Dashboards("dashboards", args, options)
    if settings.prometheus is PrometheusKind.BUNDLED:
        _bundled(site, options)
    else:
        _existing(site, options)


def _existing(site: Site, options: pulumi.ResourceOptions) -> None:
    settings = site.settings.monitoring
    by_files = settings.discovery is Discovery.CONFIG_MAP
    args = ExistingPrometheusArgs(
        stack=site.stack,
        namespace=(by_files and settings.namespace) or NAMESPACE,
        labels=settings.labels,
        targets=targets(site.settings),
        rules=rules_document(site.settings, settings.runbooks),
    )
    (FilesForPrometheus if by_files else ExistingPrometheus)("monitoring", args, options)


def _bundled(site: Site, options: pulumi.ResourceOptions) -> None:
    settings = site.settings.monitoring
    remote = settings.remote_write
    if remote is not None and remote.role is not None:
        options = site.with_rights("monitoring", PROMETHEUS, AwsRights(role=remote.role), NAMESPACE, options)
    egress = site.stack.egress
    args = BundledPrometheusArgs(
        stack=site.stack,
        settings=settings,
        scraping=Scraping(
            customer=site.settings.customer,
            targets=targets(site.settings),
            kubelets_are_known=site.on_eks,
            gpu_exporter=gpu_target(site.settings),
            alertmanager=f"{ALERTMANAGER}.{NAMESPACE}.svc:{ALERTMANAGER_PORT}" if settings.alerts else None,
            remote_write=remote,
            region=site.settings.region,
            proxied=egress.http_proxy is not None or egress.https_proxy is not None,
        ),
        rules=rules_document(site.settings, settings.runbooks),
    )
    BundledPrometheus("monitoring", args, options)
