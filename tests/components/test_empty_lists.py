"""An empty list is written only where it means nothing.

In many places of Kubernetes it means everything: names of a right, peers and ports of a network policy, prefixes to
watch. In others the API server refuses it. A stack's missing parts decide which lists are empty, so each shape is here.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import pytest

from ebbtide.settings.load import stack_of_text
from ebbtide.settings.model import StackSettings
from tests.builders.recorded import record
from tests.builders.stack import stack_settings
from tests.builders.stack_files.listed import shapes

pytestmark = pytest.mark.whole

SHAPES = shapes()
MEANS_NOTHING = {
    ("CronJob", "tolerations"),
    ("DefaultSecurityGroup", "egress"),  # there an empty list is what is wanted: nobody uses that group
    ("DefaultSecurityGroup", "ingress"),
    ("Deployment", "tolerations"),
    ("Job", "ports"),
    ("Job", "tolerations"),
    ("Job", "volumeMounts"),
    ("NodeGroup", "taints"),
    ("ValidatingAdmissionPolicy", "variables"),
}
OF_OTHERS = ("CustomResourceDefinition",)


def empty_lists(value: Any, key: str = "") -> Iterator[str]:
    """The keys of empty lists at any depth."""
    if isinstance(value, Mapping):
        for name, each in cast("Mapping[str, Any]", value).items():
            yield from empty_lists(each, name)
    elif isinstance(value, list | tuple):
        if not value:
            yield key
        for each in cast("Sequence[Any]", value):
            yield from empty_lists(each, key)


def written(settings: StackSettings) -> set[tuple[str, str]]:
    custom = [(each.type.rpartition(":")[2], each.inputs) for each in record(settings) if each.custom]
    return {(kind, key) for kind, inputs in custom if kind not in OF_OTHERS for key in empty_lists(inputs)}


@pytest.mark.parametrize("name", SHAPES)
def test_no_empty_list_can_mean_everything_or_be_refused(name: str) -> None:
    settings = stack_of_text(SHAPES[name], stack="listed", file=f"Pulumi.{name}.yaml")

    assert written(settings) <= MEANS_NOTHING


def test_neither_can_one_of_a_stack_with_nothing_but_a_customer() -> None:
    assert written(stack_settings(workers={}, workloads={})) <= MEANS_NOTHING


def test_an_empty_list_is_found_however_deep_it_is() -> None:
    assert [*empty_lists({"spec": {"rules": [{"from": []}], "ports": [1]}, "validations": []})] == [
        "from",
        "validations",
    ]
