"""The two drawings of a stack."""

from rich.console import Console

from ebbtide.recording.graph import component_tree, counts_by_type, mermaid
from ebbtide.recording.resources import Resource
from tests.builders.components import demo_stack


def component(name: str, *needs: str, type_: str = "Part") -> Resource:
    return Resource(
        urn=f"urn:{name}",
        type=f"ebbtide:components:{type_}",
        name=name,
        parent="",
        custom=False,
        inputs={},
        depends_on=tuple(f"urn:{need}" for need in needs),
    )


def child(name: str, parent: str, *needs: str, type_: str = "aws:eks/nodeGroup:NodeGroup") -> Resource:
    return Resource(
        urn=f"urn:{name}",
        type=type_,
        name=name,
        parent=f"urn:{parent}",
        custom=True,
        inputs={},
        depends_on=tuple(f"urn:{need}" for need in needs),
    )


def arrows(text: str) -> set[tuple[str, str]]:
    """Arrows by the label of their ends."""
    label = {line.split("[")[0].strip(): line.split("<br/>")[1][:-2] for line in text.splitlines() if "[" in line}
    ends = [line.split(" --> ") for line in text.splitlines() if " --> " in line]
    return {(label[first.strip()], label[then.strip()]) for first, then in ends}


def test_an_arrow_leads_to_what_waits_even_between_children() -> None:
    parts = [component("network"), child("vpc", "network"), component("cluster"), child("eks", "cluster", "vpc")]

    assert arrows(mermaid(parts)) == {("network", "cluster")}


def test_a_shortcut_is_not_drawn() -> None:
    parts = [component("a"), component("b", "a", type_="Other"), component("c", "a", "b")]

    assert arrows(mermaid(parts)) == {("a", "b"), ("b", "c")}


def test_two_that_wait_for_each_other_are_both_drawn() -> None:
    parts = [component("a", "b"), component("b", "a", type_="Other"), component("c", "a", "b")]

    assert {("a", "c"), ("b", "c"), ("a", "b"), ("b", "a")} == arrows(mermaid(parts))


def test_parts_of_one_type_in_the_same_place_share_a_box() -> None:
    parts = [component("base"), *[component(f"pool-{n}", "base", type_="Pool") for n in range(6)]]

    assert 'Pool: 0 resources<br/>pool-0, pool-1, pool-2, pool-3 and 2 more"' in mermaid(parts)
    assert len(arrows(mermaid(parts))) == 1


def test_the_order_of_registration_leaves_no_trace() -> None:
    parts = [component("a"), component("b", "a", type_="Other"), component("c", "b", type_="Third")]
    parts += [component(f"pool-{n}", "a", type_="Pool") for n in range(3)]

    assert mermaid(parts[::-1]) == mermaid(parts)


def test_a_customers_graph_fits_a_page() -> None:
    text = mermaid(demo_stack())

    assert text.startswith("flowchart TD\n")
    assert len(text.splitlines()) < 40


def test_the_tree_counts_what_components_hold() -> None:
    parts = [
        component("nodes"),
        child("one", "nodes"),
        child("two", "nodes"),
        child("vpc", "nodes", type_="aws:ec2/vpc:Vpc"),
        child("aws", "nodes", type_="pulumi:providers:aws"),
    ]
    console = Console(width=100)
    with console.capture() as capture:
        console.print(component_tree(parts, "stack acme"))

    assert capture.get().splitlines() == ["stack acme", "└── nodes  Part", "    └── 2 NodeGroup, Vpc"]
    assert counts_by_type(parts) == {"aws:ec2/vpc:Vpc": 1, "aws:eks/nodeGroup:NodeGroup": 2}
