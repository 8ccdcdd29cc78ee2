"""Fields that another manager writes: their declaration, and what is refused."""

import pulumi
import pytest

from components.ownership import FieldOwner, OwnedField, OwnershipTable, hand_over


def field(kind: str = "Deployment", path: str = "spec.replicas", initial: int = 0) -> OwnedField:
    return OwnedField(kind=kind, name="train", field=path, owner=FieldOwner.CONTROLLER, initial=initial)


@pytest.mark.parametrize("path", ["spec.max_unavailable", "scaling_config.desired_size", "spec.replica", "replicas"])
def test_a_path_that_would_match_nothing_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="camelCase"):
        field(path=path)


def test_a_field_is_refused_on_a_kind_that_does_not_have_it() -> None:
    with pytest.raises(ValueError, match="a PodDisruptionBudget has no such field"):
        field(kind="PodDisruptionBudget", path="spec.replicas")


def test_handing_over_ignores_the_field_and_notes_its_owner() -> None:
    table = OwnershipTable()
    parent = pulumi.ComponentResource.__new__(pulumi.ComponentResource)
    row = field(kind="NodeGroup", path="scalingConfig.desiredSize", initial=2)

    options = hand_over(row, parent=parent, table=table)

    assert options.ignore_changes == ["scalingConfig.desiredSize"]
    assert options.parent is parent
    assert table.rows == (row,)
    assert table.exported() == [
        {
            "kind": "NodeGroup",
            "namespace": "",
            "name": "train",
            "field": "scalingConfig.desiredSize",
            "owner": "controller",
            "initial": 2,
        }
    ]
