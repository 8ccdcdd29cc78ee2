"""Changes between two recordings: their kinds, fields and order."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.preview.changes import changes_between
from ebbtide.preview.document import ChangeKind, FieldChange, ResourceChange
from ebbtide.recording.answers import identifier
from ebbtide.recording.resources import Resource

DEPLOYMENT = "kubernetes:apps/v1:Deployment"
GROUP = "aws:eks/nodeGroup:NodeGroup"
SUBNET = "aws:ec2/subnet:Subnet"
CANARY = "canary-5f1e"

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=90),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


filled_values = st.recursive(  # null counts as absent
    st.booleans() | st.integers(-9, 9) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(st.fixed_dictionaries({"name": st.sampled_from("abcd"), "value": inner}), max_size=4)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=12,
)
unlisted_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=90),
    lambda inner: st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


def resource(type_: str = DEPLOYMENT, name: str = "api", *, stack: str = "acme", **inputs: Any) -> Resource:
    urn = f"urn:pulumi:{stack}::ebbtide::{type_}::{name}"
    return Resource(urn=urn, type=type_, name=name, parent="", custom=True, inputs=inputs)


def only(before: Resource, after: Resource) -> ResourceChange:
    (change,) = changes_between([before], [after])
    return change


def test_a_resource_of_one_side_is_created_or_deleted() -> None:
    kept, old, new = (resource(name=name, spec={"replicas": 1}) for name in ("kept", "old", "new"))

    changes = changes_between([kept, old], [kept, new])

    assert [(change.kind, change.name) for change in changes] == [
        (ChangeKind.CREATE, "new"),
        (ChangeKind.DELETE, "old"),
    ]


def test_a_changed_value_is_named_by_its_path_and_lists_by_their_index() -> None:
    before = resource(spec={"containers": [{"image": "one:1"}], "labels": {"a.b/c": "x"}, "paused": False})
    after = resource(spec={"containers": [{"image": "two:2"}, {"image": "three:3"}], "labels": {"a.b/c": "y"}})

    change = only(before, after)

    assert change.kind is ChangeKind.UPDATE
    assert change.fields == (
        FieldChange(path="spec.containers[0].image", before="one:1", after="two:2"),
        FieldChange(path="spec.containers[1].image", before="", after="three:3"),
        FieldChange(path='spec.labels["a.b/c"]', before="x", after="y"),
        FieldChange(path="spec.paused", before="false", after=""),
    )


def named(*names: str, key: str = "name", **values: Any) -> list[dict[str, Any]]:
    return [{key: name, "max": 2, **values} for name in names]


def fields_of(before: object, after: object) -> list[tuple[str, str, str]]:
    change = only(resource(pools=before), resource(pools=after))
    return [(field.path, field.before, field.after) for field in change.fields]


@pytest.mark.parametrize("key", ["name", "groupName", "alert", "job_name", "topologyKey", "instanceType"])
def test_an_entry_removed_from_a_list_is_the_only_one_that_differs(key: str) -> None:
    before, after = named("mail", "report", "train", key=key), named("mail", "train", key=key)

    assert set(fields_of(before, after)) == {(f"pools[report].{key}", "report", ""), ("pools[report].max", "2", "")}


def test_an_entry_added_before_others_is_the_only_one_that_differs() -> None:
    assert [path for path, *_ in fields_of(named("b"), named("a", "b"))] == ["pools[a].max", "pools[a].name"]


def test_a_changed_value_is_shown_under_the_name_of_its_entry() -> None:
    before, after = [*named("a"), {"name": "b", "max": 2}], [{"name": "b", "max": 3}, *named("a")]

    assert fields_of(before, after) == [("pools", "a, b", "b, a"), ("pools[b].max", "2", "3")]


def test_one_volume_mounted_twice_is_told_by_where_it_is_mounted() -> None:
    mounts = [{"name": "data", "mountPath": path, "readOnly": False} for path in ("/a", "/b", "/c")]

    assert {path.split("]")[0] for path, *_ in fields_of(mounts, mounts[1:])} == {"pools[/a"}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (["a", "b", "c"], ["b", "c"], [("pools[0]", "a", "")]),
        (["b", "c"], ["a", "b", "c"], [("pools[0]", "", "a")]),
        (["--from", "a", "--quick"], ["--from", "b", "--quick"], [("pools[1]", "a", "b")]),
        ([{"to": "a"}, {"to": "b", "port": 1}], [{"to": "b", "port": 1}], [("pools[0].to", "a", "")]),
        (["m7i", "m6i"], ["m6i", "m7i"], [("pools", "m7i, m6i", "m6i, m7i")]),
        (
            ["a", "b", "c", "d"],
            ["a", "a", "b", "b"],
            [("pools[1]", "b", "a"), ("pools[2]", "c", "b"), ("pools[3]", "d", "b")],
        ),
    ],
)
def test_entries_without_names_are_aligned_by_the_equal_ones(
    before: list[object], after: list[object], expected: list[tuple[str, str, str]]
) -> None:
    assert fields_of(before, after) == expected


@pytest.mark.parametrize("names", [("a", "a"), ("1", "2"), (f"redis://user:{CANARY}@host", "b"), ("", "b")])
def test_names_that_would_mislead_are_replaced_by_indices(names: tuple[str, str]) -> None:
    (path, *_), *_ = fields_of(named(*names), named(*names, max=3))

    assert path == "pools[0].max"


@given(filled_values, filled_values)
def test_inputs_that_differ_have_a_field_that_does(before: Any, after: Any) -> None:
    changed = changes_between([resource(value={"at": before})], [resource(value={"at": after})])

    assert bool(changed) == (before != after)


@given(st.lists(st.sampled_from("abc"), max_size=6), st.lists(st.sampled_from("abc"), max_size=6))
def test_no_path_has_two_differences(before: list[str], after: list[str]) -> None:
    paths = [path for path, *_ in fields_of(before, after)] if before != after else []

    assert len(set(paths)) == len(paths)


@pytest.mark.parametrize("ignored", ["spec.replicas", "spec"])
def test_what_others_write_is_no_change(ignored: str) -> None:
    before, after = (replace(resource(spec={"replicas": n}), ignore_changes=(ignored,)) for n in (0, 7))

    assert changes_between([before], [after]) == ()


def test_a_path_that_only_begins_alike_is_not_ignored() -> None:
    before, after = (replace(resource(spec={"replicasMax": n}), ignore_changes=("spec.replicas",)) for n in (0, 7))

    assert [field.path for field in only(before, after).fields] == ["spec.replicasMax"]


def test_a_renamed_stack_is_the_same_stack() -> None:
    assert changes_between([resource(stack="old", spec={"a": 1})], [resource(stack="new", spec={"a": 1})]) == ()


def test_components_and_providers_and_what_is_only_read_are_left_out() -> None:
    component = replace(resource("ebbtide:components:Workload"), custom=False)
    provider, read = resource("pulumi:providers:aws", "aws"), replace(resource(name="there"), read=True)

    assert changes_between([], [component, provider, read]) == ()


def test_a_change_belongs_to_the_outermost_component() -> None:
    outer = replace(resource("ebbtide:components:Cluster", "cluster"), custom=False)
    inner = replace(resource("ebbtide:components:Role", "role"), custom=False, parent=outer.urn)
    leaf = replace(resource(), parent=inner.urn)

    assert [change.component for change in changes_between([], [outer, inner, leaf])] == ["cluster"]


def test_a_changed_secret_is_a_change_that_shows_nothing() -> None:
    before, after = (
        resource("kubernetes:core/v1:Secret", kind="Secret", stringData={"password": word}) for word in ("old", CANARY)
    )

    change = only(before, after)

    assert [(field.path, field.before, field.after) for field in change.fields] == [
        ("stringData.password", "[secret]", "[secret]")
    ]
    assert CANARY not in repr(change)


@pytest.mark.parametrize(
    "value",
    [
        f"redis://user:{CANARY}@host/0",
        json.dumps({"authToken": CANARY}),
        "x" * 70 + f" amqp://user:{CANARY}@host",
        "x" * 70 + f" amqp://user:{'same' * 9}{CANARY}@host",
    ],
)
def test_a_password_inside_of_a_text_is_not_shown(value: str) -> None:
    assert CANARY not in repr(only(resource(env=value.replace(CANARY, "another-word")), resource(env=value)))


def test_of_a_document_inside_of_a_text_the_changed_word_is_shown() -> None:
    before, after = (resource(data={"config.json": json.dumps({"hours": {"zone": z}, "n": 1})}) for z in "AB")

    assert only(before, after).fields == (FieldChange(path='data["config.json"].hours.zone', before="A", after="B"),)


def test_of_a_long_text_the_place_is_shown_at_which_it_changes() -> None:
    before, after = (resource(script="#" * 500 + word + "#" * 500) for word in ("one", "two"))

    (field,) = only(before, after).fields

    assert "one" in field.before
    assert "two" in field.after
    assert len(field.before) < 70


def test_a_fixed_name_lets_the_old_one_go_first() -> None:
    metadata = {"name": "api", "namespace": "ebbtide"}
    before, after = (resource(metadata=metadata, spec={"selector": {"app": app}}) for app in "xy")
    elsewhere = resource(metadata={**metadata, "namespace": "other"}, spec={"selector": {"app": "x"}})

    assert (only(before, after).reasons, only(before, after).lowers) == (("spec.selector",), True)
    assert (only(before, elsewhere).reasons, only(before, elsewhere).lowers) == (("metadata.namespace",), False)


def test_of_aws_the_old_one_goes_first_only_where_its_name_was_chosen() -> None:
    groups = [resource(GROUP, instanceTypes=[one], nodeGroupNamePrefix="a-") for one in ("m7i.large", "m6i.large")]
    roles = [replace(resource("aws:iam/role:Role"), inputs={"name": "x", "path": path}) for path in ("/a/", "/b/")]

    assert [(only(*pair).kind, only(*pair).lowers) for pair in (groups, roles)] == [
        (ChangeKind.REPLACE, False),
        (ChangeKind.REPLACE, True),
    ]


def test_what_names_a_replaced_resource_is_replaced_with_it() -> None:
    subnets = [resource(SUBNET, "private-a", cidrBlock=block) for block in ("10.0.0.0/24", "10.1.0.0/24")]
    group = resource(GROUP, "flexible", subnetIds=[identifier(SUBNET, "private-a")])
    follower = replace(group, depends_on=(subnets[1].urn,))

    changes = changes_between([subnets[0], follower], [subnets[1], follower])

    assert {change.name: change.reasons for change in changes} == {
        "private-a": ("cidrBlock",),
        "flexible": ("subnetIds follows private-a",),
    }


def test_what_goes_with_a_replaced_resource_is_replaced_with_it() -> None:
    """The tags name only the Auto Scaling group that the node group will create."""
    groups = [resource(GROUP, "flexible", instanceTypes=[one]) for one in ("m7i.large", "m6i.large")]
    tag = replace(resource("aws:autoscaling/tag:Tag", "label"), deleted_with=groups[1].urn)

    changes = changes_between([groups[0], tag], [groups[1], tag])

    assert {change.name: change.reasons for change in changes} == {
        "flexible": ("instanceTypes",),
        "label": ("deletedWith follows flexible",),
    }


def test_resources_of_one_name_and_kind_come_in_one_order() -> None:
    """Under components of different types only their URNs differ."""
    both = [
        replace(resource(), urn=f"urn:pulumi:acme::ebbtide::ebbtide:components:{one}${DEPLOYMENT}::api") for one in "AB"
    ]

    assert changes_between([], both) == changes_between([], both[::-1])


@given(inputs=st.dictionaries(st.text(max_size=5), json_values, max_size=4))
def test_nothing_differs_from_itself(inputs: dict[str, Any]) -> None:
    one = replace(resource(), inputs=inputs)

    assert changes_between([one], [one]) == ()


@given(first=unlisted_values, second=unlisted_values)
def test_looked_at_from_the_other_side_before_is_after(first: Any, second: Any) -> None:
    one, other = resource(spec=first), resource(spec=second)

    there, back = changes_between([one], [other]), changes_between([other], [one])

    assert [[(f.path, f.before, f.after) for f in change.fields] for change in there] == [
        [(f.path, f.after, f.before) for f in change.fields] for change in back
    ]
