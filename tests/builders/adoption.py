"""Stacks whose only pods are adopted ones, and the policies for them."""

from collections.abc import Mapping
from typing import Any

from components.adopted.policy import Adoption, AdoptionArgs
from components.cluster.existing import NodeSelectors
from ebbtide.settings import StackSettings, parse_stack
from ebbtide.settings.sections.adopted import AdoptedSettings
from tests.builders.components import recorded

TEAM = "team"
"""The namespace of a rule that names none."""
SIZE = {"cpu": 1, "memory": "1Gi"}


def stack_with(cluster: Mapping[str, Any] | None = None, **rules: Mapping[str, Any]) -> StackSettings:
    """`rules` by name, with _ for a dash; a flexible rule of two pods unless it says otherwise."""
    config = {
        "ebbtide:customer": "acme",
        "ebbtide:businessHours": {"timezone": "UTC", "week": {"mon-fri": "08:00-18:00"}},
        "ebbtide:cluster": cluster or {"version": "1.36"},
        "ebbtide:adopted": {name.replace("_", "-"): _rule(rule) for name, rule in rules.items()},
    }
    return parse_stack(config, stack="acme", file="acme.yaml")


def _rule(given: Mapping[str, Any]) -> Mapping[str, Any]:
    rule = {"namespace": TEAM, "category": "flexible", **SIZE, **given}
    if rule["category"] == "worker":
        return {"usually": 1, **rule}
    return rule if "pods" in rule else {"replicas": 2, **rule}


def policies(rules: Mapping[str, AdoptedSettings], node_selectors: NodeSelectors | None = None) -> list[dict[str, Any]]:
    """Return the objects of the component, in the order of their kinds."""
    args = AdoptionArgs(rules=rules, node_selectors=node_selectors)
    resources = recorded(lambda: Adoption("adoption", args))
    objects = [dict(resource.inputs) for resource in resources if resource.custom]
    return sorted(objects, key=lambda item: (item["kind"], item["metadata"]["name"]))
