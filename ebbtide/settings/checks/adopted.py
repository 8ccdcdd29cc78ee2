"""Check the rules for adopted pods against each other and against the other sections."""

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from ebbtide.settings.checks.parsed import CheckRule, ParsedSections
from ebbtide.settings.file.keys import ADOPTED, CLUSTER, PODS, REDIS, REDIS_PASSWORD
from ebbtide.settings.file.problems import Finding
from ebbtide.settings.fragment.schema import number_of
from ebbtide.settings.sections.adopted import (
    MINIMUM_VERSION,
    MOST_RULES,
    AdoptedSettings,
    adopted_budget,
    deployment_of,
    disjoint,
)
from ebbtide.settings.sections.cluster import ClusterKind
from ebbtide.settings.sections.redis import RedisKind


def _rules_select_different_pods(parsed: ParsedSections) -> Iterator[Finding]:
    """Two rules for one pod mean two budgets, and with two budgets every eviction fails."""
    for (first, one), (second, other) in combinations(sorted(parsed.stack.adopted.items()), 2):
        if one.namespace == other.namespace and not disjoint(one.selector, other.selector):
            yield Finding(
                code="adopted.overlap",
                at=(ADOPTED, second, "selector"),
                wanted=f"a label with other values than rule {first} has for the same label",
                found=f"selectors that one pod of namespace {one.namespace} could match",
                example="{ app: hub } and { app: web }",
                hint="one pod with two budgets cannot be evicted at all",
            )


class _Written(NamedTuple):
    """An object that a rule's controller writes, and the key that names it."""

    code: str
    at: tuple[str, ...]
    kind: str
    name: str


def _rules_write_different_objects(parsed: ParsedSections) -> Iterator[Finding]:
    first: dict[tuple[str, str, str], str] = {}
    for name, rule in parsed.stack.adopted.items():
        for written in _written(name, rule):
            owner = first.setdefault((rule.namespace, written.kind, written.name), name)
            if owner != name:
                noun = written.kind.lower()
                yield Finding(
                    code=written.code,
                    at=(ADOPTED, name, *written.at),
                    wanted=f"a {noun} of only one rule",
                    found=f"{written.name!r}, which rule {owner!r} has",
                    hint=f"name the {noun} of this rule's pods",
                )


def _written(name: str, rule: AdoptedSettings) -> Iterator[_Written]:
    yield _Written("adopted.budget-twice", ("budget",), "budget", adopted_budget(name, rule))
    if rule.pool is not None:
        yield _Written("adopted.deployment-twice", ("pool", "deployment"), "Deployment", deployment_of(name, rule))
    if rule.sleep is not None:
        scale = rule.sleep.scale
        yield _Written("adopted.scale-twice", ("sleep", "scale", "name"), scale.kind.value, scale.name)


def _names_are_new(parsed: ParsedSections) -> Iterator[Finding]:
    """A rule's name is the value of a label, by which metrics, reports and the controller count pods."""
    owners = {placed.name: str(placed.at[0]) for placed in parsed.pods}
    for name in parsed.stack.adopted:
        if name in owners:
            yield Finding(
                code="name.taken",
                at=(ADOPTED, name),
                wanted="a name that no other pods of this stack have",
                found=f"{name!r}, which is also in {owners[name]}",
                example=f"team-{name}",
            )


def _one_policy_holds_the_rules(parsed: ParsedSections) -> Iterator[Finding]:
    """The policy has one expression with a nested choice for each rule; the API server accepts a depth of 250."""
    rules = len(parsed.stack.adopted)
    if rules > MOST_RULES:
        yield Finding(
            code="adopted.too-many-rules",
            at=(ADOPTED,),
            wanted=f"no more than {MOST_RULES} rules",
            found=str(rules),
            example="one rule for the notebooks of all users",
            hint="the API server refuses a policy with many more",
        )


def _the_version_has_mutating_policies(parsed: ParsedSections) -> Iterator[Finding]:
    version = parsed.stack.cluster.version
    if parsed.stack.adopted and number_of(version) < number_of(MINIMUM_VERSION):
        yield Finding(
            code="adopted.old-kubernetes",
            at=(ADOPTED,),
            wanted=f"Kubernetes {MINIMUM_VERSION} or later, for adopted pods",
            found=version,
            example=f'ebbtide:cluster: {{ version: "{MINIMUM_VERSION}" }}',
            hint=f"the API server of {version} has no MutatingAdmissionPolicy v1",
        )


def _redis_has_users(parsed: ParsedSections) -> Iterator[Finding]:
    """Outside the cluster, the owner of Redis creates users."""
    in_cluster = parsed.stack.redis.kind is RedisKind.IN_CLUSTER
    for name, rule in parsed.stack.adopted.items():
        if rule.redis and not in_cluster:
            yield Finding(
                code="adopted.redis-elsewhere",
                at=(ADOPTED, name, "redis"),
                wanted=f"no redis with {REDIS}.kind {parsed.stack.redis.kind}",
                found="true",
                hint=f"create a Secret with the address and its login in namespace {rule.namespace}",
            )
        elif rule.redis and REDIS_PASSWORD not in parsed.config:
            yield Finding(
                code="adopted.redis-open",
                at=(ADOPTED, name, "redis"),
                wanted=f"{REDIS_PASSWORD}, from which the password of the rule's user follows",
                found="no password",
                hint=f"pulumi config set --secret {REDIS_PASSWORD}",
            )


RULES = (
    CheckRule((ADOPTED,), _rules_select_different_pods),
    CheckRule((ADOPTED,), _rules_write_different_objects),
    CheckRule((ADOPTED, *PODS), _names_are_new),
    CheckRule((ADOPTED, REDIS), _redis_has_users),
    CheckRule((ADOPTED,), _one_policy_holds_the_rules),
    CheckRule((ADOPTED, CLUSTER), _the_version_has_mutating_policies, on=ClusterKind.EKS),
)
