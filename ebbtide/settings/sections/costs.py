"""The section of costs: assumptions of estimates, and tags for the bill.

Tags are on every AWS resource, so the strictest service's rules apply. AWS would also refuse an invalid tag, but
resource by resource and in the middle of an update.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, TypeAlias, cast

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, Strict, TypeAdapter, WithJsonSchema, model_validator
from pydantic_core import CoreSchema, PydanticCustomError

from ebbtide.prices import PricingAssumption
from ebbtide.settings.file.problems import all_of, show, wanted
from ebbtide.settings.sections.checked import Check, Settings
from ebbtide.settings.sections.types import Count
from ebbtide.vocabulary.labels import PREFIX

MOST_TAGS = 39  # AWS allows 50; Ebbtide adds up to six, and EKS and Kubernetes' drivers add up to eight

# Reserved prefixes and keys, with their owners. Case is ignored, as by IAM.
_BY_AWS: Mapping[str, str] = {"aws:": "AWS reserves that prefix"}
_OF_DRIVERS = "Kubernetes' drivers and Ebbtide set tags with that prefix"
_FOR_A_CUSTOMER: Mapping[str, str] = {
    **_BY_AWS,
    PREFIX: "Ebbtide sets its own tags with that prefix",
    "eks:": "EKS sets tags with that prefix",
    "kubernetes.io/": _OF_DRIVERS,
    "k8s.io/": "the autoscaler finds its groups by tags with that prefix",
    "ebs.csi.aws.com/": _OF_DRIVERS,
    "node.k8s.amazonaws.com/": _OF_DRIVERS,
    "cluster.k8s.amazonaws.com/": _OF_DRIVERS,
}
_OF_VOLUMES = "the volume driver sets it itself, and does not start if its settings contain it"
_WHOLE: Mapping[str, str] = {
    "Name": "Ebbtide names its resources with it, and IAM refuses a second one that differs only in case",
    "KubernetesCluster": "Kubernetes' drivers identify their cluster by it",
    "CSIVolumeName": _OF_VOLUMES,
    "CSIVolumeSnapshotName": _OF_VOLUMES,
}

_CHARACTERS = "letters, digits, spaces or + - = . _ : / @"
_KEY = re.compile(r"[\w +\-=.:/@]{1,128}")
_VALUE = re.compile(r"[\w +\-=.:/@]{0,256}")


def parse_cost_tags(value: object) -> dict[str, str]:
    """Accept a customer's tags, which must not be Ebbtide's own."""
    return parse_tags(value, _FOR_A_CUSTOMER, _WHOLE)


def parse_tags(
    value: object, beginnings: Mapping[str, str] = _BY_AWS, reserved_keys: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the tags, or raise one error with all faults."""
    if not isinstance(value, Mapping):
        raise wanted("type.mapping", "a mapping of tags to their values")
    tags = {str(key): text for key, text in cast("Mapping[object, object]", value).items()}
    faults = [*_number_faults(len(tags)), *_twins(tags)]
    for key, text in tags.items():
        faults += [*_taken(key, beginnings, reserved_keys or {}), *_faults(key, text)]
    if faults:
        raise all_of(faults)
    return cast("dict[str, str]", tags)


def _number_faults(number: int) -> Iterator[PydanticCustomError]:
    if number > MOST_TAGS:
        yield wanted(
            "tags.too-many",
            f"at most {MOST_TAGS} tags",
            found=str(number),
            hint="AWS takes 50 on a resource, and Ebbtide and Kubernetes add their own",
        )


def _twins(keys: Iterable[str]) -> Iterator[PydanticCustomError]:
    first: dict[str, str] = {}
    for key in keys:
        first_key = first.setdefault(key.lower(), key)
        if first_key != key:
            expected, actual = "keys that differ in more than case", f"the key {show(key)} next to {show(first_key)}"
            yield wanted(
                "tag-key.same-but-for-capitals", expected, found=actual, hint="IAM treats them as one key", at=key
            )


def _taken(key: str, beginnings: Mapping[str, str], reserved_keys: Mapping[str, str]) -> Iterator[PydanticCustomError]:
    actual = f"the key {show(key)}"
    for start, why in beginnings.items():
        if key.lower().startswith(start):
            yield wanted(
                "tag-key.reserved-prefix", f"a tag key that does not begin with {start}", found=actual, hint=why, at=key
            )
    for word, why in reserved_keys.items():
        if key.lower() == word.lower():
            yield wanted("tag-key.reserved", f"a tag key other than {word}", found=actual, hint=why, at=key)


def _faults(key: str, value: object) -> Iterator[PydanticCustomError]:
    if _KEY.fullmatch(key) is None:
        expected = f"a tag key of 1 to 128 {_CHARACTERS}"
        yield wanted("tag-key.form", expected, found=f"the key {show(key)}", hint=_length_hint(key, 128), at=key)
    if not isinstance(value, str):
        is_plain = isinstance(value, bool | int | float)
        yield wanted("type.text", "text", found=show(value), hint="quote it" if is_plain else "", at=key)
    elif _VALUE.fullmatch(value) is None:
        expected = f"a tag value of up to 256 {_CHARACTERS}"
        yield wanted("tag-value.form", expected, found=show(value), hint=_length_hint(value, 256), at=key)


def _length_hint(text: str, most: int) -> str:
    return f"it has {len(text)}" if len(text) > most else ""


# Letters of any alphabet pass. Editors and Python have different patterns for them, so this one lists what is refused.
_ASCII_ALLOWED = r"[^\u0000-\u001f!-*,;<>?\[-^`{-\u007f]"
_PARTS = (*map(re.escape, _FOR_A_CUSTOMER), *(f"{word.lower()}$" for word in _WHOLE))
_TAKEN = "|".join(re.sub("[a-z]", lambda c: f"[{c[0]}{c[0].upper()}]", part) for part in _PARTS)
_SCHEMA = {
    "type": "object",
    "maxProperties": MOST_TAGS,
    "propertyNames": {"pattern": rf"^(?!{_TAKEN}){_ASCII_ALLOWED}{{1,128}}$"},
    "additionalProperties": {"type": "string", "pattern": f"^{_ASCII_ALLOWED}{{0,256}}$"},
}

CostTags: TypeAlias = Annotated[dict[str, str], BeforeValidator(parse_cost_tags), WithJsonSchema(_SCHEMA)]


Dollars = Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]
Hours = Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False)]


def _plan_within_ceiling(plan: float | None, ceiling: float | None) -> None:
    if plan is not None and ceiling is not None and plan > ceiling:
        raise wanted(
            "costs.plan-above-ceiling",
            f"at most costs.ceiling, which is {ceiling:g}",
            found=f"{plan:g}",
            example=f"{ceiling:g}",
            at="plan",
        )


_NODES: TypeAdapter[int] = TypeAdapter(Count)


class FormerNodes(Settings):
    """Nodes of one group in the fixed fleet that the stack replaced. A plain number is `nodes`."""

    nodes: Count = Field(description="number of nodes; short form: only the number", examples=["8"])
    instance_type: Annotated[str, BeforeValidator(str), WithJsonSchema({"type": "string"})] = Field(
        default="",
        description="their instance type; default: the group's type with the most hours in the ledger's month, or else "
        "its first one",
        examples=["m7i.2xlarge"],
    )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [_NODES.json_schema(), handler(schema)]}

    @model_validator(mode="before")
    @classmethod
    def _nodes_alone(cls, value: Any) -> Any:
        """Parse a plain number here, so that its fault is located at the group and not at a key that the file does not
        have.
        """
        complete = isinstance(value, Mapping | FormerNodes)
        return cast("object", value) if complete else {"nodes": _NODES.validate_python(value)}


class CostSettings(Settings):
    """Assumptions of estimates, limits, and tags for the bill."""

    checks: ClassVar[tuple[Check, ...]] = (Check(("plan", "ceiling"), _plan_within_ceiling),)

    tags: CostTags = Field(default={}, description="tags on every AWS resource", examples=["{ cost-center: acme }"])
    pricing_assumption: PricingAssumption = Field(
        default=PricingAssumption.ON_DEMAND,
        description="assumed purchase of instance hours, for estimates; Ebbtide buys nothing",
        examples=["compute-1y-no-upfront"],
    )
    expected_node_hours: dict[str, Hours] = Field(
        default={}, description="node-hours per month by node group, for the estimate", examples=["{ flexible: 2000 }"]
    )
    before: dict[str, FormerNodes] = Field(
        default={},
        description="nodes of the fixed fleet that the stack replaced, by node group; the ledger compares with it",
        examples=["{ fixed: 3, flexible: { nodes: 8, instanceType: m7i.2xlarge } }"],
    )
    plan: Dollars | None = Field(
        default=None,
        description="planned cost of nodes in US dollars a month at list price; monitoring alerts above it; default: "
        "ceiling",
        examples=[4000],
    )
    ceiling: Dollars | None = Field(
        default=None,
        description="highest cost in US dollars a month, of all lines of the estimate: a preview blocks a stack that "
        "always costs more, or is expected to",
        examples=[6000],
    )

    @property
    def alert_above(self) -> tuple[str, float] | None:
        """Return the key and the amount above which the cost of nodes raises an alert."""
        if self.plan is not None:
            return "plan", self.plan
        return None if self.ceiling is None else ("ceiling", self.ceiling)
