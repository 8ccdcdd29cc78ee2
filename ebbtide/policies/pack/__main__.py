"""The rules for `pulumi preview --policy-pack ebbtide/policies/pack`, as the engine asks for them.

Only here `pulumi_policy` is needed, the extra `policies`. It is looked up when the pack starts, through the few names
below, so that nothing else depends on it. Written against version 1.21 (pulumi/pulumi-policy,
sdk/python/lib/pulumi_policy/policy.py). The stack's settings are read from its file, which lies in stacks/ above the
directory that Pulumi runs in, or above this one.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Protocol, TypeAlias, cast

from ebbtide.policies import RULES, judge
from ebbtide.policies.engine import EngineResource, project_root, resources_of, stack_named_in
from ebbtide.policies.pods import described
from ebbtide.policies.rule import Rule
from ebbtide.preview.document import Severity
from ebbtide.settings import StackInvalid, StackSettings, load_stack

Report: TypeAlias = Callable[[str, str | None], None]
"""Takes a message and, where there is one, the URN of the resource."""

_NO_FILE = "no stacks/Pulumi.{stack}.yaml here or above, so no rule was judged; run pulumi in the project's directory"


class Arguments(Protocol):
    resources: Sequence[EngineResource]


Validation: TypeAlias = Callable[[Arguments, Report], None]


class Levels(Protocol):
    MANDATORY: object
    ADVISORY: object


class Sdk(Protocol):
    EnforcementLevel: Levels

    def PolicyPack(self, name: str, policies: list[object]) -> object: ...  # noqa: N802 - the SDK's name

    def StackValidationPolicy(  # noqa: N802 - the SDK's name
        self, name: str, description: str, validate: Validation, enforcement_level: object
    ) -> object: ...


def main() -> None:
    sdk = cast("Sdk", import_module("pulumi_policy"))
    unknown = cast("type[Exception]", import_module("pulumi_policy.proxy").UnknownValueError)
    law = "the stack file can be read; without it no rule is judged"
    file = sdk.StackValidationPolicy("stack-file", law, _file_is_readable, sdk.EnforcementLevel.MANDATORY)
    sdk.PolicyPack("ebbtide", [file, *(_policy(sdk, rule, unknown) for rule in RULES)])  # serves until it is ended


def _policy(sdk: Sdk, rule: Rule, unknown: type[Exception]) -> object:
    levels = sdk.EnforcementLevel
    level = levels.MANDATORY if rule.severity is Severity.BLOCKING else levels.ADVISORY
    description = f"{rule.law}. Fix: {rule.fix} ({rule.source})"
    return sdk.StackValidationPolicy(rule.id, description, _validation(rule, unknown), level)


def _file_is_readable(args: Arguments, report: Report) -> None:
    try:
        if args.resources and _settings(args) is None:
            report(_NO_FILE.format(stack=stack_named_in(args.resources[0].urn)), None)
    except StackInvalid as invalid:
        report(str(invalid), None)


def _validation(rule: Rule, unknown: type[Exception]) -> Validation:
    def validate(args: Arguments, report: Report) -> None:
        try:
            settings = _settings(args)
        except StackInvalid:
            return  # told once, by the policy on the file
        if settings is None:
            return
        resources = resources_of(args.resources, unknown)
        urns = {described(resource): resource.urn for resource in resources}
        today = datetime.now(UTC).date()  # noqa: TID251 - the edge, where the real clock is read
        for result in judge(settings, resources, today, [rule]):
            if not result.excepted and result.severity is not Severity.NOTE:
                report(f"{result.resource}: {result.reason}", urns.get(result.resource))

    return validate


def _settings(args: Arguments) -> StackSettings | None:
    """None where there is no such file."""
    stack = stack_named_in(args.resources[0].urn) if args.resources else ""
    root = project_root(stack, (Path.cwd(), Path(__file__).parent))
    return None if root is None else _read(stack, root)


@cache
def _read(stack: str, root: Path) -> StackSettings:
    """Once for all policies: the engine starts the pack anew for each preview and update."""
    return load_stack(stack, root)


if __name__ == "__main__":
    main()
