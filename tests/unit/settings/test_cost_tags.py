"""Tags that AWS would refuse are refused by name."""

from pathlib import Path

import pytest

from tests.builders.settings import loaded, problem_of, problems_of, shortest

ALLOWED = "letters, digits, spaces or + - = . _ : / @"


def tagged(tags: str) -> str:
    return shortest(more=f"ebbtide:costs: {{ tags: {tags} }}")


def test_what_aws_takes_passes(tmp_path: Path) -> None:
    tags = {
        "cost-center": "",
        "a/b:c": "x = y + z",
        "kostenträger": "köln_1@example.com",
        "k" * 128: "v" * 256,
        "ebbtide": "x",
        "names": "x",
        "team name": "x",
        "example.com/kubernetes.io": "x",
    }
    text = tagged("{ " + ", ".join(f'"{key}": "{value}"' for key, value in tags.items()) + " }")

    assert loaded(text, tmp_path).costs.tags == tags


def test_a_wrong_key_is_told_with_its_line_and_path(tmp_path: Path) -> None:
    assert problem_of(tagged("{ owner!: ml }"), tmp_path) == (
        f":6: ebbtide:costs.tags.owner!: wanted a tag key of 1 to 128 {ALLOWED}, found the key 'owner!' "
        "(for example { cost-center: acme })"
    )


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        ("{ aws:team: ml }", ("tag-key.reserved-prefix", "found the key 'aws:team'")),
        ("{ AWS:team: ml }", ("tag-key.reserved-prefix",)),
        (
            "{ ebbtide.dev/customer: other }",
            ("tag-key.reserved-prefix", "ebbtide:costs.tags.ebbtide.dev/customer:"),
        ),
        (
            "{ ebbtide.dev/pool: other }",
            ("tag-key.reserved-prefix", "(for example { cost-center: acme })"),
        ),
        ("{ Ebbtide.Dev/x: ml }", ("tag-key.reserved-prefix",)),
        ("{ Name: queues }", ("tag-key.reserved", "costs.tags.Name:", "found the key 'Name'")),
        ("{ name: queues }", ("tag-key.reserved", "found the key 'name'")),
        ("{ name: queues }", ("tag-key.reserved",)),
        ("{ KubernetesCluster: x }", ("tag-key.reserved",)),
        ("{ CSIVolumeName: x }", ("tag-key.reserved",)),
        ('{ "kubernetes.io/cluster/acme": owned }', ("tag-key.reserved-prefix",)),
        ('{ "kubernetes.io/role/elb": "0" }', ("tag-key.reserved-prefix",)),
        ('{ "k8s.io/cluster-autoscaler/enabled": "false" }', ("tag-key.reserved-prefix",)),
        ('{ "eks:nodegroup-name": x }', ("tag-key.reserved-prefix",)),
        ('{ "ebs.csi.aws.com/cluster": x }', ("tag-key.reserved-prefix",)),
        ('{ "node.k8s.amazonaws.com/instance_id": x }', ("tag-key.reserved-prefix", "node.k8s.amazonaws")),
        ('{ "cluster.k8s.amazonaws.com/name": x }', ("tag-key.reserved-prefix", "cluster.k8s.amazonaws")),
        (
            "{ Team: ml, team: ops }",
            ("tag-key.same-but-for-capitals", "costs.tags.team:", "found the key 'team' next to 'Team' (for"),
        ),
        ('{ "": ml }', ("tag-key.form", "ebbtide:costs.tags:", "128", "found the key ''")),
        (f"{{ {'k' * 129}: ml }}", ("tag-key.form", "129")),
        ("{ note: 50% off }", ("tag-value.form", "costs.tags.note:", "256", "found '50% off'")),
        (f"{{ note: {'v' * 257} }}", ("tag-value.form", "257")),
        ("{ cost-center: 4711 }", ("type.text", "costs.tags.cost-center:", "found 4711")),
        ("{ cost-center: }", ("type.text", "costs.tags.cost-center:", "found nothing")),
        ("{ cost-center: { secure: AAA } }", ("secret.not-here", "costs.tags.cost-center:")),
        ("[cost-center]", ("type.mapping", "costs.tags:", "found a list")),
    ],
)
def test_a_tag_that_aws_would_refuse_says_why(tags: str, words: tuple[str, ...], tmp_path: Path) -> None:
    assert problem_of(tagged(tags), tmp_path).tells(*words)


def test_tags_leave_room_for_those_of_ebbtide_and_kubernetes(tmp_path: Path) -> None:
    def numbered(count: int) -> str:
        return tagged("{ " + ", ".join(f"tag-{number}: x" for number in range(count)) + " }")

    assert len(loaded(numbered(39), tmp_path).costs.tags) == 39
    assert problem_of(numbered(40), tmp_path).tells("tags.too-many", "ebbtide:costs.tags:", "found 40", "39")


def test_all_faults_of_all_tags_come_at_once(tmp_path: Path) -> None:
    tags = ", ".join(["aws:a: 50%", "b!: 1", *(f"tag-{number}: x" for number in range(40))])

    paths = [
        problem.path.removeprefix("ebbtide:costs.tags") for problem in problems_of(tagged(f"{{ {tags} }}"), tmp_path)
    ]

    assert paths == ["", ".aws:a", ".aws:a", ".b!", ".b!"]
