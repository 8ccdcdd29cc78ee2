"""The section of adopted pods: pods that charts, operators and other tools create in the team's own namespaces.

A rule selects the pods of one workload by their labels. An admission policy labels and places them when they are
created, and a budget of the rule selects by the same labels; objects of the pods' owner never change (docs/adr/0036).
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, TypeAlias, cast

from pydantic import BeforeValidator, ConfigDict, Field, Strict, WithJsonSchema
from pydantic_core import PydanticCustomError

from ebbtide.settings.file.problems import all_of, show, wanted
from ebbtide.settings.sections.checked import Check, Settings
from ebbtide.settings.sections.existing import LABEL_NAME, LABEL_PREFIX
from ebbtide.settings.sections.grammar import choice, text_schema
from ebbtide.settings.sections.owned import Owned
from ebbtide.settings.sections.pods.kubernetes import ObjectName
from ebbtide.settings.sections.pods.pod import NO_GPU, Gpu
from ebbtide.settings.sections.sleep import SleepTimes, fewer_pods, fixed_sleeps_by_the_clock
from ebbtide.settings.sections.types import Count, Mebibytes, Millicores, Positive, PositiveDuration
from ebbtide.settings.sections.workers import PoolSettings, WorkerSettings
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.vocabulary.labels import CLOSED_MINIMUM, NAMESPACE, PREFIX, Category

MINIMUM_VERSION = "1.36"
"""The first Kubernetes version with MutatingAdmissionPolicy in admissionregistration.k8s.io/v1."""
MOST_RULES = 200
"""One admission policy holds all rules; Kubernetes 1.36 accepts 240 in an expression and refuses 250."""

OF_THE_NODE = "topology.kubernetes.io/"
"""Prefix of labels that a pod gets from its node."""

_NAMESPACE = r"(?!kube-)[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_KEY, _VALUE = rf"({LABEL_PREFIX})?{LABEL_NAME}", rf"({LABEL_NAME})?"


def parse_team_namespace(value: object) -> str:
    """Accept a namespace that Ebbtide may adopt pods in: not Kubernetes' own, and none that Ebbtide creates."""
    expected = "a namespace of the team"
    if not isinstance(value, str) or re.fullmatch(_NAMESPACE.replace("(?!kube-)", ""), value) is None:
        raise wanted("namespace.form", expected, example="jupyter")
    if value.startswith("kube-"):
        hint = "an error of a rule there could stop the cluster's own pods"
        raise wanted("namespace.system", expected, found=repr(value), example="jupyter", hint=hint)
    if value == NAMESPACE or value.startswith(f"{NAMESPACE}-"):
        hint = "Ebbtide creates the pods there; their sections in this file set the category"
        raise wanted("namespace.ours", expected, found=repr(value), example="jupyter", hint=hint)
    return value


def parse_selector(value: object) -> dict[str, tuple[str, ...]]:
    """Return the allowed values of each label. Raise one error with all faults."""
    if not isinstance(value, Mapping) or not value:
        example = "{ app: api }, or { app: [api, web] }"
        raise wanted("selector.type", "the labels of the pods, each with a value or a list", example=example)
    labels = {str(key): inner for key, inner in cast("Mapping[object, object]", value).items()}
    faults = [fault for key, inner in labels.items() for fault in _label_faults(key, inner)]
    if faults:
        raise all_of(faults)
    return {key: tuple(sorted(_values(inner))) for key, inner in labels.items()}


def selector_text(selector: Mapping[str, tuple[str, ...]]) -> str:
    """Return `app=api or web, tier=ml`, in the order of the stack file."""
    return ", ".join(f"{key}={' or '.join(values)}" for key, values in selector.items())


def label_selector(selector: Mapping[str, tuple[str, ...]]) -> str:
    """Return the selector as the API server reads it: `app in (api,web),tier in (ml)`."""
    return ",".join(f"{key} in ({','.join(values)})" for key, values in sorted(selector.items()))


def _values(value: object) -> list[Any]:
    return [*cast("list[Any]", value)] if isinstance(value, list | tuple) else [value]


def _label_faults(key: str, value: object) -> list[PydanticCustomError]:
    if key.startswith(PREFIX):
        hint = "Ebbtide writes its labels to the pods that a rule selects"
        return [
            wanted("selector.ours", "a label that is not Ebbtide's", found=repr(key), example="app", hint=hint, at=key)
        ]
    if key.startswith(OF_THE_NODE):
        expected, hint = (
            "a label that the pod has when it is created",
            "Kubernetes adds this one when it chooses a node",
        )
        return [wanted("selector.of-the-node", expected, found=repr(key), example="app", hint=hint, at=key)]
    if re.fullmatch(_KEY, key) is None:
        expected = "a label's key as Kubernetes writes it"
        return [wanted("selector.key", expected, found=f"the key {show(key)}", example="app", at=key)]
    values = _values(value)
    if not values or len(set(map(repr, values))) < len(values):
        found = "an empty list" if not values else "a value twice"
        return [
            wanted("selector.values", "each value once, and at least one", found=found, example="[api, web]", at=key)
        ]
    for inner in values:
        if not isinstance(inner, str) or re.fullmatch(_VALUE, inner) is None:
            plain = isinstance(inner, bool | int | float)
            expected, hint = "a label's value as Kubernetes writes it", "quote it" if plain else ""
            return [wanted("selector.value", expected, found=show(inner), example="api", hint=hint, at=key)]
    return []


TeamNamespace: TypeAlias = Annotated[str, BeforeValidator(parse_team_namespace), text_schema(f"^{_NAMESPACE}$")]
_LONGEST_NAME = 46  # 63 less two generated parts of up to 17 characters together
_VALUE_SCHEMA = {"type": "string", "pattern": f"^{_VALUE}$"}
Selector: TypeAlias = Annotated[
    dict[str, tuple[str, ...]],
    BeforeValidator(parse_selector),
    WithJsonSchema(
        {
            "type": "object",
            "minProperties": 1,
            "propertyNames": {"pattern": f"^{_KEY}$"},
            "additionalProperties": {
                "anyOf": [_VALUE_SCHEMA, {"type": "array", "minItems": 1, "uniqueItems": True, "items": _VALUE_SCHEMA}]
            },
        }
    ),
]


def disjoint(one: Mapping[str, tuple[str, ...]], other: Mapping[str, tuple[str, ...]]) -> bool:
    """True if no pod can match both selectors: they require different values of one label."""
    return any(not {*one[key]} & {*other[key]} for key in one.keys() & other.keys())


class Replicas(StrEnum):
    """How the owner of a pool's Deployment treats `spec.replicas`."""

    ABSENT = "absent"
    KEPT = "kept"


def _pods_have_its_whole_name(deployment: str | None) -> None:
    """Kubernetes shortens the names of pods to 63 characters, and an Eviction has only the name of its pod."""
    if deployment is not None and len(deployment) > _LONGEST_NAME:
        expected = f"a Deployment whose name has at most {_LONGEST_NAME} characters"
        raise wanted("adopted.deployment-name", expected, found=f"{len(deployment)} characters", at="deployment")


class ScaledKind(StrEnum):
    """Kinds of objects whose replicas the workload controller writes."""

    DEPLOYMENT = "Deployment"
    STATEFUL_SET = "StatefulSet"


class SleepingObject(Settings):
    """The Deployment or StatefulSet that creates the pods."""

    kind: Annotated[ScaledKind, *choice(*ScaledKind, planned={})] = Field(
        description="kind of the object that creates the pods", examples=["Deployment"]
    )
    name: ObjectName = Field(description="name of the object in the rule's namespace", examples=["hub"])
    replicas: Replicas = Field(
        default=Replicas.ABSENT,
        description="absent: its owner does not write spec.replicas again and again; kept: an admission policy keeps "
        "the present number, whatever its owner writes, for Argo CD, Flux and Helm",
        examples=["kept"],
    )


class AdoptedSleep(SleepTimes):
    """Sleep of adopted pods, through the scale subresource of one object."""

    scale: SleepingObject = Field(
        description="the Deployment or StatefulSet whose replicas the workload controller writes",
        examples=["{ kind: Deployment, name: hub }"],
    )

    @property
    def keeps(self) -> bool:
        """True if an admission policy keeps the number."""
        return self.scale.replicas is Replicas.KEPT


class AdoptedPool(PoolSettings):
    """Sizing of an existing Deployment of workers, through its scale subresource."""

    checks: ClassVar[tuple[Check, ...]] = (*PoolSettings.checks, Check(("deployment",), _pods_have_its_whole_name))

    longest_job: PositiveDuration = Field(
        description="longest run time of a job. The pool shrinks only while terminationGracePeriodSeconds of the "
        "Deployment's template and of each pod is at least this",
        examples=["1h"],
    )
    safe_stop: Annotated[bool, Strict()] = Field(
        default=False,
        description="a stopping worker never loses a job. With false the pool never shrinks",
        examples=["true"],
    )
    deployment: ObjectName | None = Field(
        default=None, description="name of the Deployment; default: the rule's name", examples=["loader"]
    )
    replicas: Replicas = Field(
        default=Replicas.ABSENT,
        description="absent: the Deployment's owner writes no spec.replicas; kept: an admission policy keeps the "
        "present number, whatever its owner writes",
        examples=["kept"],
    )


def without_replicas(deployment: str) -> str:
    """Return how the usual tools leave the replicas of a Deployment to its pool, as one line."""
    return (
        f"Argo CD: ignoreDifferences [{{ group: apps, kind: Deployment, name: {deployment}, jsonPointers: "
        "[/spec/replicas] }] with syncOptions [RespectIgnoreDifferences=true]; Flux: no spec.replicas in the manifest, "
        "and for a HelmRelease driftDetection.ignore [{ paths: [/spec/replicas] }]; Helm: values with which the chart "
        "renders no replicas; or set pool.replicas: kept"
    )


def _category_of(fields: Mapping[str, Any]) -> Any:
    """Return None without a pool: `_counted` then reports the missing key."""
    return None if fields.get("pool") is None else Category.WORKER


def _counted(
    pool: AdoptedPool | None, category: Category | None, replicas: int | None, pods: int | None, usually: int | None
) -> None:
    """Kubernetes knows the intended number of pods only from an owner with a scale subresource."""
    if category is None:
        raise wanted("key.missing", "this key (fixed, flexible or worker)", found="nothing", at="category")
    if pool is not None and category is not Category.WORKER:
        expected = "worker, for a rule with a pool"
        raise wanted("adopted.pool-category", expected, found=category, example="worker", at="category")
    if category is Category.WORKER:
        for key, value in (("replicas", replicas), ("pods", pods)):
            if value is not None:
                hint = "a budget for workers never opens, so only estimates need their number"
                raise wanted("adopted.worker-count", "usually, for workers", found="the key", hint=hint, at=key)
        if usually is None and pool is None:
            expected = "usually: the number of pods that usually run, for estimates"
            raise wanted("adopted.uncounted", expected, found="no number of pods", example="6", at="usually")
        return
    if usually is not None:
        raise wanted("adopted.usually", "usually with category: worker only", found="the key", at="usually")
    if replicas is None and pods is None:
        expected = "replicas: N, if the pods' owner has a scale subresource, or pods: N, if it has none"
        hint = "Deployments and StatefulSets have one; so do many custom resources: kubectl get --raw shows NAME/scale"
        raise wanted("adopted.uncounted", expected, found="neither", example="replicas: 3", hint=hint, at="replicas")


def _one_pod_moves_with_an_interruption(category: Category, pods: int | None) -> None:
    if category is Category.FLEXIBLE and pods is not None and pods >= CLOSED_MINIMUM:
        raise wanted("adopted.too-many", f"fewer than {CLOSED_MINIMUM} pods", found=str(pods), at="pods")


def _a_charts_budget_opens(category: Category, replicas: int | None, budget: str | None) -> None:
    """The admission policy keeps `maxUnavailable`, which needs a scale. A budget that never opens must be Ebbtide's."""
    if budget is not None and (category is not Category.FLEXIBLE or replicas is None):
        expected, hint = "no budget, except with category: flexible and replicas", "switch the chart's budget off"
        raise wanted("adopted.chart-budget", expected, found=repr(budget), hint=hint, at="budget")


def _sleep_has_a_number(category: Category, replicas: int | None, sleep: AdoptedSleep | None) -> None:
    """The number while awake must be in the file: the present one may be the number asleep."""
    if sleep is None:
        return
    if category is Category.WORKER:
        expected, hint = "no sleep with category: worker", "workers end by themselves, and a pool scales to zero"
        raise wanted("adopted.sleep-worker", expected, found="both", example="category: fixed", hint=hint, at="sleep")
    if replicas is None:
        expected = "replicas: N, the number of pods while awake"
        raise wanted("adopted.sleep-uncounted", expected, found="nothing", example="replicas: 1", at="replicas")
    fewer_pods(sleep, replicas)


class AdoptedSettings(Owned):
    """Pods of one workload that the stack does not create."""

    checks: ClassVar[tuple[Check, ...]] = (
        Check(("pool", "category", "replicas", "pods", "usually"), _counted),
        Check(("category", "pods"), _one_pod_moves_with_an_interruption),
        Check(("category", "replicas", "budget"), _a_charts_budget_opens),
        Check(("category", "replicas", "sleep"), _sleep_has_a_number),
        Check(("category", "sleep"), fixed_sleeps_by_the_clock),
    )
    one_of: ClassVar[tuple[tuple[str, str], ...]] = (("replicas", "pods"),)
    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["category"]}, {"required": ["pool"]}]})

    namespace: TeamNamespace = Field(description="the pods' namespace, which the team creates", examples=["jupyter"])
    selector: Selector = Field(
        description="labels of the pods of one workload, each with a value or a list of values",
        examples=["{ component: hub }", "{ app: [api, web] }"],
    )
    pool: AdoptedPool | None = Field(
        default=None,
        description="sizing of a Deployment of workers by its queue; the rule's category is then worker",
        examples=["{ source: { kind: celery, queues: [etl], acks: late }, max: 12, longestJob: 1h }"],
    )
    category: Annotated[Category, *choice("fixed", "flexible", "worker", planned={})] = Field(
        default_factory=_category_of,
        description="fixed and worker pods are never evicted, flexible pods only outside business hours; workers run "
        "on flexible nodes. Required without pool",
        examples=["flexible"],
    )
    replicas: Positive | None = Field(
        default=None,
        description="number of pods, if their owner has a scale subresource, as Deployments and StatefulSets have",
        examples=["3"],
    )
    pods: Positive | None = Field(
        default=None,
        description="number of pods, if their owner has no scale subresource; at night one less must be ready",
        examples=["3"],
    )
    budget: ObjectName | None = Field(
        default=None,
        description="name of the PodDisruptionBudget of the pods' chart, which the controller opens and closes instead "
        "of one of Ebbtide; for flexible pods with replicas, if the chart cannot leave its budget out",
        examples=["api"],
    )
    usually: Count | None = Field(
        default=None, description="for workers: the number of pods that usually run, for estimates", examples=["6"]
    )
    cpu: Millicores = Field(description="CPU requests of a pod", examples=["2", "500m"])
    memory: Mebibytes = Field(description="memory requests of a pod", examples=["8Gi"])
    gpu: Gpu = Field(
        default=NO_GPU, description="GPUs per pod: a count, or { count, resource, memory }", examples=["1"]
    )

    sleep: AdoptedSleep | None = Field(
        default=None,
        description="when it has fewer pods, or none, outside business hours; with replicas only. Default: never",
        examples=["{ when: outsideBusinessHours, scale: { kind: Deployment, name: hub } }"],
    )
    redis: Annotated[bool, Strict()] = Field(
        default=False,
        description="a user of the in-cluster Redis for these pods, with rights on the queues of all pools; its "
        "address is in the Secret ebbtide-redis-RULE of their namespace",
        examples=["true"],
    )

    @property
    def count(self) -> int:
        """Return the usual number of pods."""
        return next((number for number in (self.replicas, self.pods, self.usually) if number is not None), 0)

    @property
    def opens(self) -> bool:
        """True if its budget opens outside business hours."""
        return self.category is Category.FLEXIBLE

    @property
    def gone_at_night(self) -> bool:
        """True if it has no pod while budgets are open."""
        return self.sleep is not None and self.sleep.gone_at_night

    @property
    def has_scale(self) -> bool:
        """True if Kubernetes knows the intended number of pods, so that a budget may use `maxUnavailable`."""
        return self.replicas is not None

    @property
    def open_minimum(self) -> int | None:
        """Return `minAvailable` of the open budget; None if the budget uses `maxUnavailable`, or never opens.

        Budgets of fixed pods open during maintenance.
        """
        return None if self.pods is None else self.pods - 1

    def modelled(self) -> "AdoptedWorkload":
        """Return the pods as a workload, for packing, costs and replays."""
        return AdoptedWorkload.model_construct(
            category=self.category, replicas=self.count, cpu=self.cpu, memory=self.memory, gpu=self.gpu, image=""
        )

    def modelled_pool(self) -> WorkerSettings | None:
        """Return the pool as one of `ebbtide:workers`, for packing, costs and replays; None without a pool."""
        if self.pool is None:
            return None
        sizing = {name: getattr(self.pool, name) for name in (*PoolSettings.model_fields, "safe_stop")}
        return WorkerSettings.model_construct(**sizing, cpu=self.cpu, memory=self.memory, gpu=self.gpu, image="")


def deployment_of(name: str, rule: AdoptedSettings) -> str:
    """Return the name of the Deployment that the rule's pool sizes."""
    return name if rule.pool is None or rule.pool.deployment is None else rule.pool.deployment


def adopted_budget(name: str, rule: AdoptedSettings) -> str:
    """Return the name of a rule's PodDisruptionBudget: the chart's name, or else Ebbtide's.

    A chart often names its budget like its workload, and would delete Ebbtide's budget with its own. The suffix differs
    by the field that the budget sets: the former owner of the other field would keep it, and no budget may have both.
    """
    return rule.budget or (f"ebbtide-{name}" if rule.has_scale else f"ebbtide-{name}.pods")


class AdoptedWorkload(WorkloadSettings):
    """Pods of a rule, described as a workload. Nothing provisions them."""
