"""Many customers: a stack depends on its file only, and two stacks in one account share no name."""

from pathlib import Path

from ebbtide.settings import load_stack, parse_stack
from tests.builders.mutants import bases
from tests.builders.recorded import record
from tests.unit.preview.replacement import one_of_each

NAMES = ("name", "namePrefix", "replicationGroupId", "clusterIdentifier")  # a node group's is the cluster's own affair


def named(customer: str) -> set[tuple[str, str, str]]:
    """Type, key and text of every name that must be unique in an AWS account."""
    config = {**one_of_each(), "ebbtide:customer": customer}
    config |= {"ebbtide:redis": {"kind": "elasticache"}, "ebbtide:redisPassword": "x" * 16}
    resources = record(parse_stack(config, stack=customer, file="any"))
    return {
        (resource.type, key, str(resource.inputs[key]))
        for resource in resources
        if resource.type.startswith(("aws:", "pulumi:providers:kubernetes"))
        for key in NAMES
        if key in resource.inputs
    }


def written(folder: Path, **texts: str) -> Path:
    (folder / "stacks").mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / "stacks" / f"Pulumi.{name}.yaml").write_text(text)
    return folder


def test_a_change_of_one_file_touches_no_other_stack(tmp_path: Path) -> None:
    root = written(tmp_path, demo=bases()["demo"], acme=bases()["shortest"])
    demo, acme = load_stack("demo", root), load_stack("acme", root)

    written(tmp_path, acme=bases()["shortest"].replace("max: 4", "max: 9"))

    assert load_stack("demo", root) == demo
    assert load_stack("acme", root) != acme


def test_a_broken_file_of_one_customer_stops_no_other(tmp_path: Path) -> None:
    root = written(tmp_path, demo=bases()["demo"], acme="config: [broken")

    assert load_stack("demo", root).customer == "demo"


def test_two_customers_in_one_account_share_no_name() -> None:
    one, other = named("acme"), named("zeta")

    assert ("aws:eks/cluster:Cluster", "name", "acme") in one
    assert one & other == set()
