"""Rules with odd selectors, many rules, and the rules of a stack on an existing cluster."""

import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from control_plane.plane.driver import ControlPlane

from components.pods.rules import HOST
from controllers.adapters.kube_api import Json
from ebbtide.settings.sections.adopted import MOST_RULES
from tests.control_plane.support.adopted import Adopted, adoption_of

pytestmark = pytest.mark.control_plane

ODD: Mapping[str, Any] = {
    "lists": {"selector": {"app": ["a", "b-2", "C_3.x"]}, "category": "fixed"},
    "empty": {"selector": {"app": ["", "z"], "x": "1"}},
    "prefixed": {"selector": {"app": "p", "cnpg.io/cluster": "main", "a.b-c.example/Role_1": ["x", "y"]}},
    "digits": {"selector": {"app": ["0", "1e3", "true"]}, "category": "worker"},
    "a-name-as-long-as-a-name-may-ever-be-012": {"selector": {"app": "q" * 63}, "category": "fixed"},
}
VALUES = {
    "app": ["a", "b-2", "C_3.x", "", "z", "p", "0", "1e3", "true", "q" * 63, "other"],
    "x": ["1", "2"],
    "cnpg.io/cluster": ["main", "other"],
    "a.b-c.example/Role_1": ["x", "y", ""],
}


@pytest.fixture
def team(control_plane: ControlPlane) -> Iterator[Adopted]:
    """Without policies yet."""
    team = Adopted(control_plane)
    yield team
    team.clean()


def test_the_api_server_selects_as_a_label_selector_does(team: Adopted) -> None:
    team.adopt(ODD)
    rules = team.stack(ODD).adopted
    chance = random.Random(1)

    for _ in range(150):
        labels = {key: chance.choice(values) for key, values in VALUES.items() if chance.random() < 0.8}
        expected = [name for name, rule in rules.items() if all(labels.get(k) in v for k, v in rule.selector.items())]
        category, rule = adoption_of(team.admitted(labels))
        assert ([rule] if rule else []) == expected, labels
        assert category == (rules[rule].category if rule else None)


def test_as_many_rules_as_check_accepts_are_in_force(team: Adopted) -> None:
    """With lists of values, each rule's spread has an expression of its own."""
    values = {number: [f"app-{number}", f"{'x' * 50}-{number}"] for number in range(MOST_RULES - 1)}
    team.adopt({f"rule-{number}": {"selector": {"app": both}} for number, both in values.items()})

    pod = team.admitted({"app": "app-198"})
    assert adoption_of(pod) == ("flexible", "rule-198")
    (selected,) = pod["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"]
    assert selected["values"] == values[198]


def test_on_an_existing_cluster_pods_go_to_the_owners_nodes(team: Adopted) -> None:
    team.adopt(node_selectors={"fixed": {"example.com/pool": "core", "disk": "ssd"}, "gpu": {"accelerator": "a"}})

    def selector(labels: Mapping[str, str], **own: str) -> Json | None:
        return team.admitted(labels, nodeSelector=own)["spec"].get("nodeSelector")

    assert selector({"app": "hub"}) == {"example.com/pool": "core", "disk": "ssd"}
    assert selector({"app": "hub"}, disk="ssd", zone="a") == {"example.com/pool": "core", "disk": "ssd", "zone": "a"}
    assert selector({"app": "hub"}, disk="hdd") == {"disk": "hdd"}
    assert selector({"app": "model"}) == {"accelerator": "a"}
    assert selector({"app": "web"}) is None
    assert adoption_of(team.admitted({"app": "web"})) == ("flexible", "web")


def test_fixed_pods_gather_where_they_have_no_nodes_of_their_own(team: Adopted) -> None:
    """On any node each of them would keep another node from flexible pods, and up at night."""

    def gathers(app: str) -> bool:
        return "podAffinity" in team.admitted({"app": app})["spec"]["affinity"]

    team.adopt(node_selectors={"flexible": {"pool": "batch"}})
    assert (gathers("hub"), gathers("web")) == (True, True)
    team.adopt(node_selectors={"fixed": {"pool": "core"}})
    assert (gathers("hub"), gathers("web")) == (False, True)


def test_the_node_of_a_rule_is_no_other_choice(team: Adopted) -> None:
    team.adopt(node_selectors={"fixed": {HOST: "server-1"}})
    term = {"matchExpressions": [{"key": HOST, "operator": "In", "values": ["server-1", "server-2"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    ways: list[Json] = [{}, {"nodeSelector": {HOST: "server-1"}}, {"affinity": {"nodeAffinity": required}}]

    for way in ways:
        spec = team.admitted({"app": "hub"}, **way)["spec"]
        assert (spec["nodeSelector"], "priorityClassName" in spec) == ({HOST: "server-1"}, True)


@pytest.mark.parametrize(
    ("expressions", "chooses"),
    [
        ([("generation", "Gt", "2")], False),
        ([("generation", "Gt", "3")], True),
        ([("generation", "Lt", "10")], False),
        ([("generation", "Lt", "3")], True),
        ([("generation", "Gt", "two")], True),
        ([("generation", "Lt", "9" * 30)], True),
        ([("pool", "Lt", "3")], True),
        ([("pool", "In", "other"), ("generation", "In", "4")], True),
        ([("pool", "In", "other"), ("generation", "In", "3")], False),
    ],
)
def test_alternatives_of_an_affinity_are_compared_with_all_labels_of_the_owners_nodes(
    expressions: list[tuple[str, str, str]], chooses: bool, team: Adopted
) -> None:
    """Kubernetes compares numbers with `Gt` and `Lt`, and no other value."""
    nodes = {"generation": "3", "pool": "core"}
    team.adopt(node_selectors={"flexible": nodes})
    terms = [{"matchExpressions": [{"key": key, "operator": how, "values": [it]}]} for key, how, it in expressions]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}

    pod = team.admitted({"app": "web"}, affinity={"nodeAffinity": required})

    assert pod["spec"].get("nodeSelector", {}) == ({} if chooses else nodes)
