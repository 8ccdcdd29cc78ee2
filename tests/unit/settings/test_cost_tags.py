"""Tags that AWS would refuse are refused here, each by its own name."""

from pathlib import Path

import pytest

from tests.builders_settings import loaded, problem_of, problems_of, shortest

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
    ("tags", "said"),
    [
        ("{ aws:team: ml }", "wanted a tag key that does not begin with aws:, found the key 'aws:team'"),
        ("{ AWS:team: ml }", "AWS keeps that beginning for itself"),
        (
            "{ ebbtide.dev/customer: other }",
            "ebbtide:costs.tags.ebbtide.dev/customer: wanted a tag key that does not begin with ebbtide.dev/, found",
        ),
        (
            "{ ebbtide.dev/pool: other }",
            "(for example { cost-center: acme }); Ebbtide sets tags of its own with that beginning",
        ),
        ("{ Ebbtide.Dev/x: ml }", "wanted a tag key that does not begin with ebbtide.dev/"),
        ("{ Name: queues }", "costs.tags.Name: wanted a tag key other than Name, found the key 'Name'"),
        ("{ name: queues }", "wanted a tag key other than Name, found the key 'name'"),
        ("{ name: queues }", "Ebbtide names its resources with it, and IAM takes no second one in other capitals"),
        ("{ KubernetesCluster: x }", "wanted a tag key other than KubernetesCluster"),
        ("{ CSIVolumeName: x }", "the driver of volumes sets it itself, and does not start with it in its settings"),
        ('{ "kubernetes.io/cluster/acme": owned }', "a tag key that does not begin with kubernetes.io/, found the key"),
        ('{ "kubernetes.io/role/elb": "0" }', "Kubernetes' drivers and Ebbtide set tags with that beginning"),
        ('{ "k8s.io/cluster-autoscaler/enabled": "false" }', "the autoscaler finds its groups by tags with that"),
        ('{ "eks:nodegroup-name": x }', "wanted a tag key that does not begin with eks:"),
        ('{ "ebs.csi.aws.com/cluster": x }', "wanted a tag key that does not begin with ebs.csi.aws.com/"),
        ('{ "node.k8s.amazonaws.com/instance_id": x }', "wanted a tag key that does not begin with node.k8s.amazonaws"),
        ('{ "cluster.k8s.amazonaws.com/name": x }', "wanted a tag key that does not begin with cluster.k8s.amazonaws"),
        (
            "{ Team: ml, team: ops }",
            "costs.tags.team: wanted keys that differ in more than capitals, found the key 'team' beside 'Team' (for",
        ),
        ('{ "": ml }', f"ebbtide:costs.tags: wanted a tag key of 1 to 128 {ALLOWED}, found the key ''"),
        (f"{{ {'k' * 129}: ml }}", "; it has 129"),
        ("{ note: 50% off }", f"costs.tags.note: wanted a tag value of up to 256 {ALLOWED}, found '50% off'"),
        (f"{{ note: {'v' * 257} }}", "; it has 257"),
        ("{ cost-center: 4711 }", "costs.tags.cost-center: wanted text, found 4711"),
        ("{ cost-center: }", "costs.tags.cost-center: wanted text, found nothing"),
        ("{ cost-center: { secure: AAA } }", "costs.tags.cost-center: wanted a plain value, found (a secret)"),
        ("[cost-center]", "costs.tags: wanted a mapping of tags to their values, found a list"),
    ],
)
def test_a_tag_that_aws_would_refuse_says_why(tags: str, said: str, tmp_path: Path) -> None:
    assert said in problem_of(tagged(tags), tmp_path)


def test_tags_leave_room_for_those_of_ebbtide_and_kubernetes(tmp_path: Path) -> None:
    def numbered(count: int) -> str:
        return tagged("{ " + ", ".join(f"tag-{number}: x" for number in range(count)) + " }")

    assert len(loaded(numbered(39), tmp_path).costs.tags) == 39
    assert "ebbtide:costs.tags: wanted at most 39 tags, found 40" in problem_of(numbered(40), tmp_path)


def test_all_faults_of_all_tags_come_at_once(tmp_path: Path) -> None:
    tags = ", ".join(["aws:a: 50%", "b!: 1", *(f"tag-{number}: x" for number in range(40))])

    paths = [
        problem.path.removeprefix("ebbtide:costs.tags") for problem in problems_of(tagged(f"{{ {tags} }}"), tmp_path)
    ]

    assert paths == ["", ".aws:a", ".aws:a", ".b!", ".b!"]
