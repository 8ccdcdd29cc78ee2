"""The same rules as the engine runs them, behind a stand-in for the few names of `pulumi_policy` that the pack uses."""

import runpy
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, TypeAlias, cast

import pytest

from ebbtide.policies import RULES
from ebbtide.preview.resources import Resource
from tests.builders_components import ROOT
from tests.builders_policies import DEMO, MUTANTS, Change, both, edited, recorded

PACK = ROOT / "ebbtide" / "policies" / "pack"
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
CANARY = "canary-3f9a"
BUDGET = "PodDisruptionBudget ebbtide/api"

Violations: TypeAlias = list[tuple[str, str, str | None]]  # the policy, the message, the URN


class EnforcementLevel(Enum):
    ADVISORY = "advisory"
    MANDATORY = "mandatory"


class UnknownValueError(Exception):
    pass


class Proxy(Mapping[str, Any]):
    """As the SDK's own: what is unknown raises when it is touched, and all numbers are floats."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, key: str) -> Any:
        return proxied(self._values[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class ListProxy(Sequence[Any]):
    def __init__(self, values: Sequence[Any]) -> None:
        self._values = values

    def __getitem__(self, index: Any) -> Any:
        return proxied(self._values[index])

    def __len__(self) -> int:
        return len(self._values)


def proxied(value: Any) -> Any:
    if value == UNKNOWN:
        raise UnknownValueError
    if isinstance(value, dict):
        return Proxy(cast("dict[str, Any]", value))
    if isinstance(value, list):
        return ListProxy(cast("list[Any]", value))
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


@dataclass
class Policy:
    name: str
    description: str
    validate: Callable[[Any, Callable[[str, str | None], None]], None]
    enforcement_level: EnforcementLevel


@dataclass
class Served:
    packs: list[tuple[str, list[Policy]]] = field(default_factory=list[tuple[str, list[Policy]]])

    def pack(self, name: str, policies: list[Policy]) -> None:
        self.packs.append((name, policies))


@pytest.fixture
def policies(monkeypatch: pytest.MonkeyPatch) -> list[Policy]:
    served = Served()
    sdk, proxy = ModuleType("pulumi_policy"), ModuleType("pulumi_policy.proxy")
    vars(sdk).update(EnforcementLevel=EnforcementLevel, PolicyPack=served.pack, StackValidationPolicy=Policy)
    vars(proxy).update(UnknownValueError=UnknownValueError)
    monkeypatch.setitem(sys.modules, "pulumi_policy", sdk)
    monkeypatch.setitem(sys.modules, "pulumi_policy.proxy", proxy)
    runpy.run_path(str(PACK), run_name="__main__")
    ((name, found),) = served.packs
    assert name == "ebbtide"
    return found


def shown(resources: Sequence[Resource], stack: str = DEMO) -> SimpleNamespace:
    """The resources as the engine hands them to a pack."""
    by_urn: dict[str, SimpleNamespace] = {}
    for one in resources:
        urn = one.urn.replace(f"urn:pulumi:{DEMO}::", f"urn:pulumi:{stack}::")
        opts = SimpleNamespace(ignore_changes=list(one.ignore_changes), protect=one.protect)
        by_urn[one.urn] = SimpleNamespace(
            resource_type=one.type, props=Proxy(one.inputs), urn=urn, name=one.name, opts=opts, parent=None
        )
    for one in resources:
        by_urn[one.urn].parent = by_urn.get(one.parent)
    return SimpleNamespace(resources=list(by_urn.values()))


def violations(policies: Sequence[Policy], arguments: SimpleNamespace, *only: str) -> Violations:
    """What the policies report; with `only`, those of them."""
    found: Violations = []

    def reporting(policy: str) -> Callable[[str, str | None], None]:
        return lambda message, urn: found.append((policy, message, urn))

    for policy in policies:
        if not only or policy.name in only:
            policy.validate(arguments, reporting(policy.name))
    return found


def changed(change: Change) -> SimpleNamespace:
    return shown(change(recorded(DEMO)))


def test_every_rule_is_a_policy_and_what_blocks_is_mandatory(policies: list[Policy]) -> None:
    levels = {policy.name: policy.enforcement_level.value for policy in policies if policy.name != "stack-file"}

    wanted = {rule.id: "mandatory" if rule.severity.value == "blocking" else "advisory" for rule in RULES}
    assert levels == wanted


def test_the_engine_finds_nothing_in_a_shipped_stack(policies: list[Policy]) -> None:
    assert violations(policies, shown(recorded(DEMO))) == []


def test_a_breach_names_its_resource(policies: list[Policy]) -> None:
    ((policy, message, urn),) = violations(policies, changed(MUTANTS["EB019"].change), "EB018", "EB019")

    assert (policy, message.split(":")[0]) == ("EB019", "Deployment ebbtide/dashboards")
    assert urn is not None
    assert urn.endswith("::dashboards-deployment")


def test_a_number_is_shown_as_it_was_written(policies: list[Policy]) -> None:
    """The engine hands over floats."""
    ((_, message, _),) = violations(policies, changed(MUTANTS["EB001"].change), "EB001")

    assert "declared as 1, so ray-head" in message


def test_a_budget_that_the_controller_opened_for_the_night_breaks_no_rule(policies: list[Policy]) -> None:
    assert violations(policies, changed(edited(BUDGET, "spec.maxUnavailable", 1)), "EB001", "EB004", "EB008") == []


def test_what_is_not_known_before_the_update_breaks_no_rule(policies: list[Policy]) -> None:
    later = both(
        edited("Deployment ebbtide/api", "spec.template.spec.containers.0.image", UNKNOWN),
        edited("NodeGroup flexible-a-nodes", "launchTemplate", UNKNOWN),
        edited("Cluster cluster-control-plane", "roleArn", UNKNOWN),
    )

    assert violations(policies, changed(later)) == []


def test_no_message_shows_a_secret(policies: list[Policy]) -> None:
    """In the engine they come in the clear."""
    leaking = both(
        edited("Secret ebbtide/ebbtide-redis", "stringData", {"password": CANARY}),
        edited("Deployment ebbtide/api", "spec.template.spec.containers.0.env.0", {"name": "TOKEN", "value": CANARY}),
        *(MUTANTS[rule].change for rule in ("EB002", "EB019", "EB030", "EB031")),
    )

    found = violations(policies, changed(leaking), "EB002", "EB013", "EB019", "EB030", "EB031")

    assert {policy for policy, _, _ in found} >= {"EB002", "EB019", "EB030", "EB031"}
    assert CANARY not in str(found)


def test_a_stack_without_a_file_is_one_line(policies: list[Policy]) -> None:
    ((policy, message, _),) = violations(policies, shown(recorded(DEMO), stack="nobody"))

    assert policy == "stack-file"
    assert "stacks/Pulumi.nobody.yaml" in message


def test_a_file_that_is_wrong_is_told_once(
    policies: list[Policy], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stacks").mkdir()
    shutil.copy(ROOT / "stacks" / "Pulumi.demo.yaml", tmp_path / "stacks")
    with (tmp_path / "stacks" / "Pulumi.demo.yaml").open("a", encoding="utf-8") as file:
        file.write("  ebbtide:exceptions: [{ policy: EB019 }]\n")
    monkeypatch.chdir(tmp_path)

    ((policy, message, _),) = violations(policies, shown(recorded(DEMO)))

    assert policy == "stack-file"
    assert "ebbtide:exceptions[0].reason" in message
