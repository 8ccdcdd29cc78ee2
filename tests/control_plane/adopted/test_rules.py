"""Rules with odd selectors, many rules, and the rules of a stack on an existing cluster."""

import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from control_plane.plane.driver import ControlPlane

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
    many = {f"rule-{number}": {"selector": {"app": f"app-{number}"}} for number in range(MOST_RULES - 1)}
    team.adopt(many)

    assert adoption_of(team.admitted({"app": "app-198"})) == ("flexible", "rule-198")


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
