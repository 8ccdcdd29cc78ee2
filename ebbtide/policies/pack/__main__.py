"""The policy pack of the rules: `pulumi preview --policy-pack ebbtide/policies/pack`.

Only this module needs `pulumi_policy` (extra `policies`). It imports the few names below when the pack starts. Written
for version 1.21 (pulumi/pulumi-policy, sdk/python/lib/pulumi_policy/policy.py). The stack's settings are the config
that the engine runs with, which Pulumi's language host passes on (pulumi/pulumi,
sdk/python/cmd/pulumi-language-python/main.go), since the pack's own directory may have no stack file.

A rule that cannot be judged is advisory, even if the rule is mandatory: a fault of Ebbtide stops no update.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from typing import Any, Protocol, TypeAlias, cast

from ebbtide.findings import Severity
from ebbtide.policies import RULES, judge
from ebbtide.policies.engine import EngineInputs, EngineResource, inputs_of, resources_of, stack_named_in
from ebbtide.policies.rule import PolicyResult, Rule
from ebbtide.recording.resources import display_name
from ebbtide.recording.values import mapping
from ebbtide.settings import StackInvalid
from ebbtide.settings.file.contents import files_in
from ebbtide.settings.load import STACKS, project_root, settings_of_texts

Report: TypeAlias = Callable[[str, str | None], None]
"""Receives a message and the URN of the resource, if there is one."""

_CONFIG = "PULUMI_CONFIG"
_NO_CONFIG = f"no rule was judged: wanted the stack's config as JSON in {_CONFIG}, as Pulumi passes it on, found none"
_CONFIG_LAW = "the stack's config can be read; without it no rule is judged"
_INPUTS_LAW = "keeps the declared inputs of each resource, for the rules to read; reports nothing"
_JUDGED_LAW = "every rule can be judged"


class Arguments(Protocol):
    resources: Sequence[EngineResource]


Validation: TypeAlias = Callable[[Arguments, Report], None]
InputsValidation: TypeAlias = Callable[[EngineInputs, Report], None]


class Levels(Protocol):
    MANDATORY: object
    ADVISORY: object


class Sdk(Protocol):
    EnforcementLevel: Levels

    def PolicyPack(self, name: str, policies: list[object]) -> object: ...  # noqa: N802 - the SDK's name

    def ResourceValidationPolicy(  # noqa: N802 - the SDK's name
        self, name: str, description: str, validate: InputsValidation, enforcement_level: object
    ) -> object: ...

    def StackValidationPolicy(  # noqa: N802 - the SDK's name
        self, name: str, description: str, validate: Validation, enforcement_level: object
    ) -> object: ...


class Judgement:
    """The results of all rules for one stack; the engine starts a new pack for each run."""

    def __init__(self, unknown: type[Exception]) -> None:
        self._unknown = unknown
        self._inputs: dict[str, Mapping[str, Any]] = {}
        self._judged: frozenset[str] = frozenset()
        self._results: tuple[PolicyResult, ...] = ()
        self._urns: Mapping[str, str] = {}
        self._trouble = ""

    def keep(self, args: EngineInputs, _: Report) -> None:
        self._inputs[args.urn] = inputs_of(args, self._unknown)

    def config(self, args: Arguments, report: Report) -> None:
        self._judge(args.resources)
        if self._trouble:
            report(self._trouble, None)

    def rule(self, args: Arguments, report: Report, *, rule: Rule) -> None:
        self._judge(args.resources)
        for result in self._results:
            if result.code == rule.code and result.severity is rule.severity and not result.excepted:
                report(f"{result.resource}: {result.text}", self._urns.get(result.resource))

    def faults(self, args: Arguments, report: Report) -> None:
        """Report faults of rules: results whose severity is not that of their rule."""
        self._judge(args.resources)
        severities = {rule.code: rule.severity for rule in RULES}
        for result in self._results:
            if result.severity is not Severity.NOTE and result.severity is not severities[result.code]:
                report(f"{result.code}: {result.text}", None)

    def _judge(self, engine_resources: Sequence[EngineResource]) -> None:
        """Judge once for all policies, since each receives the same resources."""
        urns = frozenset(resource.urn for resource in engine_resources)
        if urns == self._judged:
            return
        self._judged, self._results, self._trouble = urns, (), ""
        stack = stack_named_in(engine_resources[0].urn)
        texts = mapping(json.loads(os.environ.get(_CONFIG, "{}")))
        if not texts:
            self._trouble = _NO_CONFIG
            return
        try:
            reader = files_in(project_root() / STACKS)
            settings = settings_of_texts(texts, stack=stack, file=f"config of {stack}", reader=reader)
        except StackInvalid as invalid:
            self._trouble = str(invalid)
            return
        resources = resources_of(engine_resources, self._inputs, self._unknown)
        self._urns = {display_name(resource): resource.urn for resource in resources}
        today = datetime.now(UTC).date()  # noqa: TID251 - the edge, where the real clock is read
        self._results = judge(settings, resources, today, RULES)


def main() -> None:
    sdk = cast("Sdk", import_module("pulumi_policy"))
    unknown = cast("type[Exception]", import_module("pulumi_policy.proxy").UnknownValueError)
    level, judgement = sdk.EnforcementLevel, Judgement(unknown)
    policies = [
        sdk.ResourceValidationPolicy("stack-inputs", _INPUTS_LAW, judgement.keep, level.ADVISORY),
        sdk.StackValidationPolicy("stack-config", _CONFIG_LAW, judgement.config, level.MANDATORY),
        *(_policy(sdk, rule, judgement) for rule in RULES),
        sdk.StackValidationPolicy("all-judged", _JUDGED_LAW, judgement.faults, level.ADVISORY),
    ]
    sdk.PolicyPack("ebbtide", policies)  # serves until it is ended


def _policy(sdk: Sdk, rule: Rule, judgement: Judgement) -> object:
    levels = sdk.EnforcementLevel
    level = levels.MANDATORY if rule.severity is Severity.BLOCKING else levels.ADVISORY
    description = f"{rule.title}. Fix: {rule.remedy} ({rule.source})"
    return sdk.StackValidationPolicy(rule.code, description, partial(judgement.rule, rule=rule), level)


if __name__ == "__main__":
    main()
