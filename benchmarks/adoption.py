"""Measure the latency of the admission policy for adopted pods: one client creates 200 pods in turn.

The policy is removed and applied again for each turn, so that a slow minute of the machine falls on all alike. Without
nodes and controllers the API server and its etcd are alone.
"""

import time
from collections.abc import Callable, Iterator
from itertools import count

from control_plane.plane.driver import ControlPlane

from benchmarks.control_plane_process import until
from benchmarks.measure import Figures, percentiles
from controllers.adapters.kube_api import APPLY, KubeApi
from tests.builders.adoption import TEAM, policies, stack_with
from tests.control_plane.support.applying import Applying

_PODS = 200
_TURNS = 3
_RULES = (0, 4, 30, 200)
_OTHER = "other"  # a namespace without rules


def measured() -> dict[str, Figures]:
    durations: dict[str, list[float]] = {}
    with ControlPlane(with_nodes=False) as plane:
        for namespace in (TEAM, _OTHER):
            plane.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        names = (f"pod-{number}" for number in count())
        for _ in range(_TURNS):
            for rules in _RULES:
                for way, create in _with_rules(plane.api, rules, names):
                    durations.setdefault(f"{way}, {rules} rules", []).extend(_timed(create))
    return {f"pod created, {name}, ms": percentiles(values) for name, values in durations.items()}


def _with_rules(api: KubeApi, rules: int, names: Iterator[str]) -> Iterator[tuple[str, Callable[[], object]]]:
    applying = Applying(api)
    if rules:
        adopted = {f"rule-{number}": {"selector": {"app": f"app-{number}"}} for number in range(rules)}
        stack = stack_with(**{**adopted, "rule-0": {"selector": {"app": "app-0"}, "category": "fixed"}})
        applying.apply(policies(stack.adopted))
    # The rule that is compared last, by its name.
    app = max((f"rule-{number}" for number in range(rules)), default="-0").rpartition("-")[2]

    def create(namespace: str, *, stored: bool) -> str:
        name = next(names)
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": f"app-{app}"}},
            "spec": {"containers": [{"name": "main", "image": "any"}]},
        }
        query = {} if stored else {"dryRun": "All"}
        made = api.patch(f"/api/v1/namespaces/{namespace}/pods/{name}", pod, APPLY, fieldManager="bench", **query)
        return made["spec"].get("nodeSelector", {}).get("ebbtide.dev/node-kind", "")

    until(lambda: bool(create(TEAM, stored=False)) == bool(rules), "the policy to be in force")
    yield "dry run", lambda: create(TEAM, stored=False)
    yield "stored", lambda: create(TEAM, stored=True)
    yield "dry run elsewhere", lambda: create(_OTHER, stored=False)
    applying.delete()
    until(lambda: not create(TEAM, stored=False), "the policy to be gone")


def _timed(create: Callable[[], object]) -> list[float]:
    durations: list[float] = []
    for _ in range(_PODS):
        begun = time.perf_counter()
        create()
        durations.append((time.perf_counter() - begun) * 1000)
    return durations
