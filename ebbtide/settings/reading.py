"""Validate the sections of a stack file one by one, so that one fault does not hide the others."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import SequenceMatcher
from typing import Any, TypeVar, cast, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError

from ebbtide.provisioning_labels import NodeKind, Provisioner
from ebbtide.settings.capacity.placement import (
    cheapest_group,
    disk_holds,
    fits,
    head_size,
    home_kind,
    node_of,
    on_one_architecture,
    pod_size,
    suits,
    takes,
)
from ebbtide.settings.checks.crosschecks import cross_findings
from ebbtide.settings.checks.parsed import ParsedSections
from ebbtide.settings.checks.secrets import one_finding_per_secret
from ebbtide.settings.declared import declared_pods
from ebbtide.settings.file.contents import FileReader, with_files
from ebbtide.settings.file.document import FOREIGN, OURS, REGION
from ebbtide.settings.file.entries import as_written, named_entries, with_variants
from ebbtide.settings.file.keys import (
    ADOPTED,
    CUSTOMER,
    EXCEPTIONS,
    FIELDS,
    GROUPS,
    HOURS,
    KEYS,
    PODS,
    PODS_IN,
    RAY,
    REDIS_PASSWORD,
    SERVICES,
    VARIANTS,
    WORKERS,
    WORKLOADS,
)
from ebbtide.settings.file.not_here import not_here, page_section
from ebbtide.settings.file.problems import NEAR, SECRET, Finding, Secret, did_you_mean, show, value_at
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.cluster import ClusterSettings
from ebbtide.settings.sections.exceptions import ExceptionSettings, PolicyException
from ebbtide.settings.sections.existing import is_existing, misplaced
from ebbtide.settings.sections.jobs import CronJobSettings, JobSettings
from ebbtide.settings.sections.node_groups import DEFAULT_REGION, NodeGroupSettings, filled_groups
from ebbtide.settings.sections.pods.group import GroupPodSettings
from ebbtide.settings.sections.ray import RaySettings, with_image
from ebbtide.settings.sections.secrets import secret_faults, secrets_of
from ebbtide.settings.sections.serving.services import INHERITED, SINGLE_VARIANT, ServiceSettings
from ebbtide.settings.sections.types import ShortName
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.settings.sections.zones import known_regions
from ebbtide.settings.translation import findings_of
from ebbtide.vocabulary.labels import Category

_CLUSTER_KEYS = frozenset(field.alias or name for name, field in ClusterSettings.model_fields.items())

_DIRECTION = "((north|south)(east|west)?|east|west|central)"
_REGION = rf"[a-z]{{2,4}}(-[a-z]+)*-{_DIRECTION}-[0-9]"
_OF_PARTITION_AWS = r"(?!cn-)[a-z]{2}-[a-z]+-[0-9]"  # other partitions: cn-, one more word, or four letters

_Section = TypeVar("_Section", bound=BaseModel)
_Placed = TypeVar("_Placed", bound=GroupPodSettings)
_Workload = TypeVar("_Workload", bound=WorkloadSettings)


class Sections:
    """Reads a config mapping section by section and collects all `findings`."""

    def __init__(self, config: Mapping[str, object], reader: FileReader) -> None:
        plain = {key: without_secrets(value) for key, value in config.items()}
        spread = with_variants(plain, INHERITED, SINGLE_VARIANT)
        self._config, self.findings = with_files(spread.config, reader)
        self.findings += _nameless_variants(plain)
        self._origins = spread.origins

    def settings(self, stack: str) -> StackSettings | None:
        """Return the stack, or None if there are `findings`."""
        self._refuse_unknown_keys()
        self._refuse_nothing_to_run()
        fields: dict[str, Any] = {
            "stack": stack,
            "region": self._region(),
            "customer": self._customer(),
            "secrets": secrets_of(self._config),
            "exceptions": self._exceptions(),
            "region_set": REGION in self._config,
            "redis_password_set": REDIS_PASSWORD in self._config,
        }
        fields |= {field: self._section(key) for key, field in FIELDS.items() if field not in fields and key != GROUPS}
        filled = self._groups(fields)
        fields["node_groups"] = self._read_all(GROUPS, filled)
        self.findings += secret_faults(self._config)
        self.findings = one_finding_per_secret(self.findings, self._config)
        self._refuse_misplaced_keys()
        self.findings += cross_findings(self._for_checks(fields, filled))
        self.findings = as_written(self.findings, self._origins)
        return None if self.findings else _settled(StackSettings.model_construct(None, **fields))

    def _for_checks(self, fields: Mapping[str, Any], groups: Mapping[str, object]) -> ParsedSections:
        """Return the sections without a fault."""
        faulty = {finding.at[0] for finding in self.findings}
        stack = StackSettings.model_construct(None, **fields)
        for section, field in FIELDS.items():
            if section in faulty:
                vars(stack).pop(field)
        password = self._config.get(REDIS_PASSWORD)
        return ParsedSections(
            stack=stack,
            valid=frozenset({REGION, *KEYS} - faulty),
            config={**self._config, GROUPS: groups if isinstance(self._config.get(GROUPS, {}), Mapping) else None},
            existing=is_existing(self._config),
            token_fault=password.token_fault if isinstance(password, Secret) else "",
        )

    def _refuse_unknown_keys(self) -> None:
        """Values are not shown: the value of a mistyped key may be a password."""
        empty = ""
        for key, value in self._config.items():
            if key in KEYS or key.startswith(FOREIGN) or (not key.startswith(OURS) and isinstance(value, Secret)):
                empty = key if value is None else ""
                continue
            meant = f"did you mean {OURS}{key}?" if OURS + key in KEYS else not_here(key) or did_you_mean(key, KEYS)
            if empty and ":" not in key:
                meant = f"indent it further if it belongs to {empty}, which is empty"
            self.findings.append(
                Finding(code="key.unknown", at=(key,), wanted="a known key", found=f"the key {key!r}", hint=meant)
            )

    def _refuse_misplaced_keys(self) -> None:
        """Report a misplaced key once, without the faults of its value."""
        misplaced_keys = list(misplaced(self._config, cluster_keys=_CLUSTER_KEYS))
        places = {finding.at for finding in misplaced_keys}
        remaining = [f for f in self.findings if not any(f.at[:end] in places for end in range(1, len(f.at) + 1))]
        self.findings = [*remaining, *misplaced_keys]

    def _region(self) -> str:
        region = self._config.get(REGION, DEFAULT_REGION)
        if not isinstance(region, str) or re.fullmatch(_REGION, region) is None:
            self.findings.append(
                Finding(
                    code="region.form",
                    at=(REGION,),
                    wanted="an AWS region",
                    found="another value",
                    example="us-east-1",
                    hint=_region_hint(region),
                )
            )
            return DEFAULT_REGION
        if re.fullmatch(_OF_PARTITION_AWS, region) is None and not is_existing(self._config):
            self.findings.append(
                Finding(
                    code="region.other-partition",
                    at=(REGION,),
                    wanted="a region of AWS's commercial partition, the only one whose ARNs begin with arn:aws:",
                    found="one of China, of a government, of a sovereign cloud or of an isolated one",
                    example="eu-central-1",
                    hint="create a cluster there by other means and name it in ebbtide:cluster, { kind: existing }; "
                    f"{page_section('clouds')}",
                )
            )
        return region

    def _customer(self) -> str:
        value = self._config.get(CUSTOMER)
        try:
            return TypeAdapter(ShortName).validate_python(value)
        except ValidationError:
            self.findings.append(
                Finding(
                    code="customer.name",
                    at=(CUSTOMER,),
                    wanted="the customer's short name: lower-case letters, digits and hyphens, at most 24 long",
                    found=show(value),
                    example="acme",
                    hint="quote it" if isinstance(value, bool | int | float) else "",
                )
            )
            return ""

    def _section(self, key: str) -> object:
        if get_origin(_type_of(key)) is dict:
            return self._read_all(key, self._mapping(key))
        if key == HOURS and key not in self._config:
            expected = "this key: the customer's time zone and working hours"
            example = '{ timezone: Europe/Berlin, week: { mon-fri: "08:00-18:00" } }'
            self.findings.append(
                Finding(code="key.missing", at=(key,), wanted=expected, found="nothing", example=example)
            )
            return None
        return self._read(_type_of(key), self._config.get(key, {}), (key,))

    def _exceptions(self) -> tuple[PolicyException, ...]:
        """Read the list as the only field of a model, and locate its faults below the key itself."""
        section = {"exceptions": self._config.get(EXCEPTIONS, [])}
        before = len(self.findings)
        parsed = self._read(ExceptionSettings, section, ())
        located = [replace(f, at=(EXCEPTIONS, *f.at[1:])) for f in self.findings[before:]]
        self.findings[before:] = located
        return () if parsed is None else parsed.exceptions

    def _refuse_nothing_to_run(self) -> None:
        if all(self._config.get(key, {}) == {} for key in (WORKERS, SERVICES, WORKLOADS, RAY, ADOPTED)):
            example = "train: { source: { queues: [train] }, image: …, max: 10, cpu: 4, memory: 16Gi, longestJob: 12h }"
            keys = f"{WORKERS}, {SERVICES}, {WORKLOADS}, {RAY}, {ADOPTED}"
            self.findings.append(
                Finding(
                    code="workers.none",
                    at=(WORKERS,),
                    wanted=f"something to run (one of {keys})",
                    found="nothing",
                    example=example,
                )
            )

    def _groups(self, fields: Mapping[str, Any]) -> dict[str, object]:
        """Return the groups with defaults; none on an existing cluster. A GPU group is added if a pod with GPUs names
        none of the file's groups, or may be such a pod.
        """
        if is_existing(self._config):
            return {}
        unknown = not PODS_IN.keys().isdisjoint(finding.at[0] for finding in self.findings)
        stack = StackSettings.model_construct(None, **fields)
        groups = self._mapping(GROUPS)
        with_gpus = [declared.pod for declared in declared_pods(stack, PODS_IN) if declared.pod.gpu.count]
        gpus_needed = unknown or any(getattr(pod, "node_group", "") not in groups for pod in with_gpus)
        cluster = fields["cluster"]
        default = Provisioner.CLUSTER_AUTOSCALER if cluster is None else cluster.provisioner
        return filled_groups(groups, gpus_wanted=gpus_needed, provisioner=default, region=fields["region"])

    def _read_all(self, key: str, entries: Mapping[str, object]) -> dict[str, BaseModel]:
        names, model = get_args(_type_of(key))
        check_name = TypeAdapter[str](names)
        valid: dict[str, BaseModel] = {}
        for name, value in entries.items():
            self._check_name(check_name, key, name)
            entry = self._read(model, value, (key, name))
            if entry is not None:
                valid[name] = entry
        return valid

    def _check_name(self, names: TypeAdapter[str], key: str, name: str) -> None:
        try:
            names.validate_python(name)
        except ValidationError as error:
            expected = error.errors(include_url=False)[0]["msg"]
            self.findings.append(
                Finding(code="name.form", at=(key, name), wanted=expected, found=show(name), example="train-large")
            )

    def _mapping(self, key: str) -> dict[str, object]:
        value = self._config.get(key, {})
        if not isinstance(value, Mapping):
            hint = "leave the key out to have the defaults" if value is None else ""
            self.findings.append(
                Finding(code="type.mapping", at=(key,), wanted="a mapping of names", found=show(value), hint=hint)
            )
        return dict(named_entries(self._config.get(key)))

    def _read(self, model: type[_Section], raw: object, at: tuple[str, ...]) -> _Section | None:
        """Accept keys as the file spells them only: Python's field names would pass here and fail in an editor."""
        try:
            return model.model_validate(raw, by_alias=True, by_name=False)
        except ValidationError as error:
            self.findings += findings_of(error, model, raw, at)
            return None


def _type_of(section: str) -> Any:
    """Return the type of a section: a model, or a mapping from names to models."""
    return StackSettings.model_fields[FIELDS[section]].annotation


def files_named(config: Mapping[str, object]) -> list[str]:
    """Return the paths of the files that the config refers to, as written."""
    paths: list[str] = []

    def note(path: str) -> bytes:
        paths.append(path)
        return b""

    Sections(config, note)
    return paths


def _nameless_variants(config: Mapping[str, object]) -> Iterator[Finding]:
    """Yield a finding for each variant of the file that has the name of a service's only pods."""
    for name, service in named_entries(config.get(SERVICES)):
        if isinstance(value_at(service, (VARIANTS, SINGLE_VARIANT)), Mapping):
            yield Finding(
                code="name.form",
                at=(SERVICES, name, VARIANTS),
                wanted="names of variants: lower-case letters, digits and hyphens, at most 24 long",
                found="an empty name",
                example="large",
            )


def without_secrets(value: object) -> Any:
    """Return the value with `SECRET` in place of every `secure:` mapping."""
    if isinstance(value, Mapping):
        mapping = cast("Mapping[object, object]", value)
        return (
            SECRET if list(mapping) == ["secure"] else {key: without_secrets(inner) for key, inner in mapping.items()}
        )
    if isinstance(value, list | tuple):
        return [without_secrets(inner) for inner in cast("list[object]", value)]
    return value


def _settled(stack: StackSettings) -> StackSettings:
    """Fill in what Ebbtide chooses: node groups and processors of pods, their order, and time zones of schedules."""
    first_choices = {pool.node_group for pool in stack.workers.values() if pool.fallback}
    groups = {
        name: group.with_fallback() if name in first_choices else group for name, group in stack.node_groups.items()
    }
    return stack.model_copy(
        update={"node_groups": groups}
        | {
            field: {name: _with_choices(name, entry, stack) for name, entry in named_entries(getattr(stack, field))}
            for field in (FIELDS[section] for section in PODS)
        }
    )


def _with_choices(name: str, entry: object, stack: StackSettings) -> object:
    groups, region = stack.node_groups, stack.region
    match entry:
        case WorkloadSettings():
            return _on_kind(entry, groups)
        case ServiceSettings():
            return _served(name, entry, groups)
        case CronJobSettings():
            return _in_zone(_placed(entry, groups, region), stack.business_hours.timezone)
        case GroupPodSettings():
            return _placed(entry, groups, region)
        case RaySettings():
            return _ray_placed(entry, groups, region)
        case _:
            return entry


def _placed(pool: _Placed, groups: Mapping[str, NodeGroupSettings], region: str) -> _Placed:
    if pool.node_group:
        return pool
    size = pod_size(pool)
    kind = home_kind(Category.WORKER, size.gpu)
    if not groups:  # an existing cluster, where a set of nodes has the name of the kind
        return pool.model_copy(update={"node_group": kind.value})
    usable = {
        name: group
        for name, group in groups.items()
        if group.kind is kind
        and disk_holds(group, pool.ephemeral_storage)
        and suits(group, pool)
        and fits(size, node_of(group))
    }
    settled = on_one_architecture(pool, usable.values())
    candidates = {name: group for name, group in usable.items() if suits(group, settled)}
    # A Job is stopped and runs again when its template changes, so it gets no `arch`: its group implies the processor.
    runs_once = isinstance(pool, JobSettings) and not isinstance(pool, CronJobSettings)
    home = cheapest_group(size, pool.most, candidates, region) or ""
    return (pool if runs_once else settled).model_copy(update={"node_group": home})


def _on_kind(pod: _Workload, groups: Mapping[str, NodeGroupSettings]) -> _Workload:
    """Return a workload with the architecture of the groups that it fits."""
    size = pod_size(pod)
    return on_one_architecture(
        pod, [group for group in groups.values() if takes(group, pod) and fits(size, node_of(group))]
    )


def _served(name: str, service: ServiceSettings, groups: Mapping[str, NodeGroupSettings]) -> ServiceSettings:
    variants = {
        variant: pods.model_copy(update={"arch": _on_kind(pods.workload(name, service), groups).arch})
        for variant, pods in service.variants.items()
    }
    return service.model_copy(update={"variants": variants})


def _ray_placed(cluster: RaySettings, groups: Mapping[str, NodeGroupSettings], region: str) -> RaySettings:
    complete = with_image(cluster)
    placed = {name: _placed(group, groups, region) for name, group in complete.groups.items()}
    fixed = [group for group in groups.values() if group.kind is NodeKind.FIXED and suits(group, complete.head)]
    fitting = [group for group in fixed if fits(head_size(complete.head), node_of(group))]
    return complete.model_copy(update={"groups": placed, "head": on_one_architecture(complete.head, fitting)})


def _region_hint(region: object) -> str:
    """Name the regions that a value nearly is. Other values are not answered: they may be secrets."""
    if not isinstance(region, str):
        return ""
    plain = re.sub(r"[^a-z0-9]", "", region.lower())
    shares = {name: SequenceMatcher(None, plain, name.replace("-", "")).ratio() for name in known_regions()}
    best = max(shares.values())
    nearest = " or ".join(name for name, share in shares.items() if share == best)
    return f"did you mean {nearest}?" if best >= NEAR else ""


def _in_zone(job: CronJobSettings, timezone: str) -> CronJobSettings:
    return job if job.timezone else job.model_copy(update={"timezone": timezone})
