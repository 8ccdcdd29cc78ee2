"""Summarize a stack file in a few lines, for comparison with its author's intent."""

from collections import Counter
from collections.abc import Iterator

from ebbtide.settings.capacity.placed import PlacedPod, placed_pods
from ebbtide.settings.capacity.process_documents import sleep_policies
from ebbtide.settings.file.keys import WORKER_WORDS
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.adopted import AdoptedSettings, selector_text
from ebbtide.settings.sections.jobs import CronJobSettings, JobSettings
from ebbtide.settings.sections.monitoring import MonitoringSettings, PrometheusKind
from ebbtide.settings.sections.pods.pod import Gpu
from ebbtide.settings.sections.serving.scale import FloorKind, ScaleSettings
from ebbtide.settings.sections.week import format_week
from ebbtide.settings.sections.workers import WorkerSettings
from ebbtide.text.counts import several
from ebbtide.text.durations import format_duration
from ebbtide.text.quantities import cpu_text, memory_text
from ebbtide.vocabulary.labels import GPU_RESOURCE


def summary(settings: StackSettings) -> list[str]:
    """Return one line per entry."""
    hours = settings.business_hours
    lines = [f"customer {settings.customer}, open {format_week(hours.week)} ({hours.timezone}){_calendar(settings)}"]
    if settings.cluster.context is not None:
        lines.append(f"cluster  existing, {settings.place}")
    lines += _watched(settings.monitoring)
    for name, labels in settings.cluster.node_selectors.items():
        lines.append(f"nodes    {name}: {', '.join(f'{key}={value}' for key, value in labels.items())}")
    for name, group in settings.node_groups.items():
        kind = "" if name == group.kind else f" ({group.kind})"
        by = ", by Karpenter" if group.by_karpenter else ""
        lines.append(f"nodes    {name}{kind}: {group.min} to {group.max} of {' or '.join(group.instance_types)}{by}")
    categories = Counter(str(workload.category) for workload in settings.workloads.values())
    if categories:
        counts = ", ".join(f"{count} {category}" for category, count in sorted(categories.items()))
        lines.append(f"services {counts}: {', '.join(settings.workloads)}")
    awake = {policy.name: policy.replicas for policy in sleep_policies(settings)}
    for name, sleep in settings.sleeps.items():
        if sleep.sleeps:
            when = ", when idle" if sleep.idle_for else f", {format_duration(sleep.delay)} later" if sleep.delay else ""
            lines.append(f"sleeps   {name}: {sleep.replicas} of {awake[name]} outside business hours{when}")
        else:
            lines.append(f"sleeps   {name}: never; once it is awake: ebbtide release {name}, then remove its key sleep")
    for name, service in settings.services.items():
        for pods, variant in service.pods(name).items():
            by = ", ".join(variant.scale.metrics.keys)
            way = "" if service.route is None else f", at {service.route.host}{service.route.path}"
            on = " on spot nodes" if variant.spot else ""
            size = f"{cpu_text(variant.cpu)} CPU, {memory_text(variant.memory)}{_gpus(variant.gpu)}{on}"
            grows = f"{variant.scale.min} to {variant.scale.max}{f' by {by}' if by else ''}{_floor(variant.scale)}"
            lines.append(f"serves   {pods}: {grows}, {size}{way}")
    for placed in placed_pods(settings, WORKER_WORDS):
        lines.append(f"{WORKER_WORDS[str(placed.at[0])].line:<8} {placed.name}: {_worker_text(placed)}")
    for name, cluster in settings.ray.items():
        lines.append(
            f"ray      {name}: Ray {cluster.version}, head {cpu_text(cluster.head.cpu)} CPU, "
            f"{memory_text(cluster.head.memory)} on fixed, tasks up to {format_duration(cluster.longest_task)}"
        )
        for key, group in cluster.groups.items():
            size = f"{cpu_text(group.cpu)} CPU, {memory_text(group.memory)}{_gpus(group.gpu)}"
            idle = format_duration(group.idle_after)
            lines.append(
                f"ray      {name}.{key}: {group.min} to {group.max} on {group.node_group}, {size}, idle for {idle}"
            )
    for name, rule in settings.adopted.items():
        lines.append(
            f"adopted  {name}: {_number_of_pods(rule)} of {rule.namespace} with "
            f"{selector_text(rule.selector)}, {cpu_text(rule.cpu)} CPU, {memory_text(rule.memory)}{_gpus(rule.gpu)}"
        )
    lines += [
        f"planned  {o.pool}: {o.workers} workers from {o.at} for {format_duration(o.for_)}" for o in hours.overnight
    ]
    return lines


def _watched(monitoring: MonitoringSettings) -> Iterator[str]:
    match monitoring.prometheus:
        case PrometheusKind.NONE:
            return
        case PrometheusKind.EXISTING:
            yield f"watched  by the Prometheus in the namespace {monitoring.namespace}"
        case PrometheusKind.BUNDLED:
            alerts = f"by {monitoring.alerts.receiver.kind}" if monitoring.alerts else "without a receiver"
            days = monitoring.kept_for.total_seconds() / 86_400
            yield (
                f"watched  by its own Prometheus, {days:g} days in {memory_text(monitoring.storage_mib)}, alerts "
                f"{alerts}"
            )


def _worker_text(placed: PlacedPod) -> str:
    pod = placed.pod
    group = f"{placed.group} (else {placed.fallback})" if placed.fallback else placed.group
    on_nodes = f"on {group}, {cpu_text(pod.cpu)} CPU, {memory_text(pod.memory)}{_gpus(pod.gpu)}"
    match pod:
        case WorkerSettings():
            broker = f" in {pod.source.broker}" if pod.source.broker else ""
            jobs = f"jobs up to {format_duration(pod.longest_job)}, queue {', '.join(pod.source.queues)}{broker}"
            return f"{pod.min} to {pod.max} {on_nodes}, {jobs}"
        case JobSettings():
            pods = f"{pod.completions} pods, {pod.parallelism} at a time, " if pod.completions > 1 else ""
            return f"{_start(pod)}, {pods}{on_nodes}, up to {format_duration(pod.longest_run)}"
        case _:
            return on_nodes


def _start(job: JobSettings) -> str:
    if not isinstance(job, CronJobSettings):
        return "once"
    return "suspended" if job.suspended else f"at {job.schedule} ({job.timezone})"


def _gpus(gpu: Gpu) -> str:
    if not gpu.count:
        return ""
    kind = "GPU" if gpu.resource == GPU_RESOURCE else gpu.resource
    return f", {gpu.count} {kind}" + (f" of {memory_text(gpu.memory)}" if gpu.memory else "")


def _number_of_pods(rule: AdoptedSettings) -> str:
    if rule.pool is not None:
        return f"{rule.pool.min} to {rule.pool.max} workers"
    usually = "" if rule.usually is None else "usually "
    return usually + several(rule.count, f"{rule.category} pod")


def _calendar(settings: StackSettings) -> str:
    calendar = settings.business_hours.holidays
    where = "-".join(part for part in (calendar.country, calendar.subdivision) if part)
    worked = settings.business_hours.hours().open_dates
    opened = (
        f", open on {', '.join(str(day) for day in sorted({interval.day for interval in worked}))}" if worked else ""
    )
    return (f", closed on holidays of {where}" if where else "") + opened


def _floor(scale: ScaleSettings) -> str:
    """Return the pods that are planned ahead of load."""
    if scale.floor is None:
        return ""
    open_hours = [] if scale.open is None else [f"{scale.open} when open"]
    events = [f"{event.min} from {event.at:%Y-%m-%d %H:%M}" for event in scale.events]
    nights = [f"{night.min} from {night.at} every day" for night in scale.overnight]
    forecast = [_forecast(scale)] if scale.floor is FloorKind.FORECAST else []
    return f", at least {', '.join([*open_hours, *nights, *events, *forecast])}"


def _forecast(scale: ScaleSettings) -> str:
    return "a forecast" if scale.margin == 1 else f"{scale.margin:g} times a forecast"
