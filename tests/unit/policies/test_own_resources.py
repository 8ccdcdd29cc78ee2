"""Rules that Ebbtide's own resources keep in every stack still find what a team's program adds beside them.

So they stay policies: a law over our recordings would not see these resources.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from ebbtide.policies import judge
from tests.builders.policies import DEMO, Change, added, both, budget, recorded, settings_of

TODAY = date(2026, 11, 20)


def deployment(name: str, namespace: str, category: str = "") -> Change:
    labels = {"ebbtide.dev/workload": name, **({"ebbtide.dev/category": category} if category else {})}
    inputs: Mapping[str, Any] = {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"template": {"metadata": {"labels": labels}, "spec": {"containers": []}}},
    }
    return added("kubernetes:apps/v1:Deployment", name, inputs)


def node_group(**inputs: Any) -> Change:
    scaling = {"minSize": 0, "maxSize": 3, "desiredSize": 0}
    return added("aws:eks/nodeGroup:NodeGroup", "own-nodes", {"scalingConfig": scaling, **inputs})


def service(name: str, selector: Mapping[str, str]) -> Change:
    metadata = {"name": name, "namespace": "ebbtide-workers"}
    return added("kubernetes:core/v1:Service", name, {"metadata": metadata, "spec": {"selector": selector}})


def misspelt(change: Change) -> Change:
    def ignoring(resources: tuple[Any, ...]) -> tuple[Any, ...]:
        *others, last = change(resources)
        return (*others, replace(last, ignore_changes=("spec.max_unavailable",)))

    return ignoring


OWN: Mapping[str, Change] = {
    "EB005": budget("own", "nobody", maxUnavailable=0),
    "EB006": both(deployment("own", "ebbtide", "flexible"), budget("own", "own", maxUnavailable=0)),
    "EB007": misspelt(budget("own", "own", maxUnavailable=0)),
    "EB022": service("own", {"ebbtide.dev/workload": "train"}),
    "EB037": added("aws:ebs/volume:Volume", "own", {"size": 20}),
    "EB026": node_group(labels={"disk": "fast"}),
    "EB038": added("aws:cloudwatch/logGroup:LogGroup", "own", {"name": "/acme/own"}),
    "EB039": node_group(version="1.99"),
    "EB042": deployment("own", "kube-system"),
}


def test_the_controller_sizes_pools_and_no_other_deployment_of_category_worker() -> None:
    own = deployment("own", "ebbtide-workers", "worker")(recorded(DEMO))

    assert "EB008" not in {one.code for one in judge(settings_of(DEMO), own, TODAY) if "own" in one.resource}


@pytest.mark.parametrize("rule", OWN)
def test_what_a_program_adds_breaks_the_rule(rule: str) -> None:
    results = judge(settings_of(DEMO), OWN[rule](recorded(DEMO)), TODAY)

    assert any("own" in one.resource for one in results if one.code == rule)
