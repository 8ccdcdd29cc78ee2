"""What lies between a recording and the provider, which is not needed: names, nesting, the wire, where it is found."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ebbtide.recording.record import SECRET
from ebbtide.recording.resources import Resource
from tests.aws.support.messagepack import UNKNOWN, packed, unpacked
from tests.aws.support.outputs import outputs_of_pulumi
from tests.aws.support.provider import HOW, NAMED, VERSION, Complaint, found
from tests.aws.support.schema import Attribute, Block, Nested, proposed
from tests.aws.support.translation import ids_of_aws, terraform_type, translated
from tests.paths import ROOT


def attribute(kind: Any = "string", *, required: bool = False, computed: bool = False) -> Attribute:
    return Attribute(kind, required, settable=required or not computed, computed=computed)


SIZES = Block({"min_size": attribute("number", required=True)}, {})
TAINT = Block({"key": attribute()}, {})
GROUP = Block(
    {
        "arn": attribute(computed=True),
        "name": attribute(),
        "role_arn": attribute(required=True),
        "auth_token": attribute(),
        "subnet_ids": attribute(["set", "string"]),
        "labels": attribute(["map", "string"]),
        "enabled": attribute("bool"),
    },
    {"scaling_config": Nested(SIZES, single=False, least=1, most=1), "taint": Nested(TAINT, False, 0, 2)},
)
SOUND: dict[str, Any] = {"roleArn": "arn:aws:iam::111122223333:role/node", "scalingConfig": {"minSize": 1}}


def group(type_: str = "aws:eks/nodeGroup:NodeGroup", **inputs: Any) -> Resource:
    return Resource(urn=f"urn::{type_}::nodes", type=type_, name="nodes", parent="", custom=True, inputs=inputs)


def config(**inputs: Any) -> dict[str, Any]:
    return translated(group(**SOUND, **inputs), GROUP, {}).config


def complaints(**inputs: Any) -> list[Complaint]:
    return translated(group(**{**SOUND, **inputs}), GROUP, {}).complaints


def test_values_are_written_as_terraform_reads_them() -> None:
    written = packed({"a": [None, True, 1, 1.5, "x", UNKNOWN]})

    assert written.hex() == (
        "df00000001" + "db00000001" + "61" + "dd00000006" + "c0" + "c3" + "d30000000000000001"
        "cb3ff8000000000000" + "db00000001" + "78" + "d40000"
    )


@pytest.mark.parametrize(
    "value",
    [None, True, 0, 127, -1, 1.5, "", "x" * 300, [1, UNKNOWN], {"a": {"b": []}}, list(range(20)), 2**40],
)
def test_what_is_written_is_read_again(value: Any) -> None:
    assert unpacked(packed(value)) == value


def test_the_short_forms_that_the_provider_writes_are_read() -> None:
    written = bytes.fromhex("83" + "a161" + "93" + "01ffcc80" + "a162" + "d9026869" + "a163" + "c70300aabbcc")

    assert unpacked(written) == {"a": [1, -1, 128], "b": "hi", "c": UNKNOWN}


def test_bytes_behind_a_value_are_an_error() -> None:
    with pytest.raises(ValueError, match="1 bytes are left over"):
        unpacked(packed(None) + b"\0")


def test_what_terraform_has_no_value_for_is_refused() -> None:
    with pytest.raises(TypeError, match="no value of Terraform"):
        packed(object())


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("aws:eks/nodeGroup:NodeGroup", "aws_eks_node_group"),
        ("aws:ec2/vpc:Vpc", "aws_vpc"),
        ("aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule", "aws_vpc_security_group_ingress_rule"),
        ("aws:autoscaling/tag:Tag", "aws_autoscaling_group_tag"),
    ],
)
def test_a_resource_has_terraforms_name(ours: str, theirs: str) -> None:
    empty = Block({}, {})

    assert terraform_type(ours, dict.fromkeys([theirs, "aws_tag"], empty)) == theirs


def test_a_resource_that_the_provider_lacks_is_named() -> None:
    with pytest.raises(LookupError, match="neither aws_eks_fleet nor aws_fleet"):
        terraform_type("aws:eks/fleet:Fleet", {})


def test_names_nesting_and_kinds_are_those_of_the_schema() -> None:
    made = config(name="n", taints=[{"key": "gpu"}], labels={"nodeKind": "gpu"}, subnetIds=["subnet-1"], enabled="true")

    assert made == {
        "arn": None,
        "name": "n",
        "role_arn": "arn:aws:iam::111122223333:role/node",
        "auth_token": None,
        "subnet_ids": ["subnet-1"],
        "labels": {"nodeKind": "gpu"},
        "enabled": True,
        "scaling_config": [{"min_size": 1}],
        "taint": [{"key": "gpu"}],
    }


def test_a_name_that_is_left_out_is_made_as_pulumi_makes_it() -> None:
    made = config()["name"]

    assert made.startswith("nodes-")
    assert len(made) == len("nodes-") + 7


def test_a_secret_is_not_known() -> None:
    assert config(authToken=SECRET)["auth_token"] is UNKNOWN


def test_an_id_that_the_recording_invented_gets_the_form_of_aws() -> None:
    template = group("aws:ec2/launchTemplate:LaunchTemplate")
    invented, given = next(iter(ids_of_aws([template]).items()))

    told = translated(group(**SOUND, subnetIds=[invented, "other"]), GROUP, {invented: given})

    assert told.config["subnet_ids"] == [given, "other"]
    assert given.startswith("lt-0")


@pytest.mark.parametrize(
    ("inputs", "path"),
    [
        ({"naem": "n"}, "naem"),
        ({"roleArn": None}, "role_arn"),
        ({"arn": "arn:aws:eks"}, "arn"),
        ({"scalingConfig": None}, "scaling_config"),
        ({"scalingConfig": {}}, "scaling_config.min_size"),
        ({"scalingConfig": {"minSize": "many"}}, "scaling_config.min_size"),
        ({"scalingConfig": {"minSize": 1, "max": 2}}, "scaling_config.max"),
        ({"scalingConfig": "1"}, "scaling_config"),
        ({"taints": [{"key": "a"}, {"key": "b"}, {"key": "c"}]}, "taint"),
        ({"labels": "a=b"}, "labels"),
        ({"enabled": "yes"}, "enabled"),
    ],
)
def test_what_terraform_would_refuse_is_found_on_the_way(inputs: dict[str, Any], path: str) -> None:
    assert [each.path for each in complaints(**inputs)] == [path]
    assert complaints() == []


def test_of_a_new_resource_what_is_set_is_proposed_and_nothing_else() -> None:
    planned = proposed(config(), GROUP)

    assert planned["arn"] is None
    assert planned["labels"] is None
    assert planned["scaling_config"] == [{"min_size": 1}]


def test_of_a_resource_that_is_there_computed_values_stay_proposed() -> None:
    made = {**config(labels={"a": "b"}), "arn": "arn:aws:eks", "subnet_ids": ["subnet-1"]}

    planned = proposed(config(labels={"a": "c"}), GROUP, made)

    assert (planned["arn"], planned["labels"], planned["subnet_ids"]) == ("arn:aws:eks", {"a": "c"}, None)


def test_outputs_have_the_names_and_nesting_that_the_program_reads() -> None:
    state = {**config(taints=[{"key": "gpu"}], labels={"nodeKind": "gpu"}), "arn": "arn:aws:eks", "subnet_ids": ["s"]}

    told = outputs_of_pulumi(state, GROUP, {"subnetIds": ["s"]})

    assert told["arn"] == "arn:aws:eks"
    assert told["scalingConfig"] == {"minSize": 1}
    assert told["taints"] == [{"key": "gpu"}]
    assert told["labels"] == {"nodeKind": "gpu"}
    assert told["subnetIds"] == ["s"]


def test_a_list_that_pulumi_takes_as_one_value_is_answered_as_one() -> None:
    state = {**config(), "subnet_ids": ["s"]}

    assert outputs_of_pulumi(state, GROUP, {"subnetIds": "s"})["subnetIds"] == "s"


def placed(mirror: Path, version: str = VERSION) -> Path:
    program = mirror / f"registry.terraform.io/hashicorp/aws/{version}/linux_amd64/terraform-provider-aws_v{version}_x5"
    program.parent.mkdir(parents=True)
    program.touch()
    return program


def looked_for(folder: Path, **environment: str) -> Path | None:
    return found({"XDG_DATA_DIRS": str(folder / "data"), **environment}, folder / "home", folder / "tf", folder / "opt")


@pytest.fixture
def _on_linux(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] - used by name
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")


@pytest.mark.usefixtures("_on_linux")
@pytest.mark.parametrize(
    "place",
    [
        "tf/.terraform/providers",
        "named",
        "cache",
        "home/.terraform.d/plugins",
        "home/.local/share/terraform/plugins",
        "data/terraform/plugins",
        "opt/mirror",
    ],
)
def test_the_provider_is_found_where_terraform_looks(place: str, tmp_path: Path) -> None:
    program = placed(tmp_path / place)
    (tmp_path / "cli.tfrc").write_text(f'provider_installation {{\n filesystem_mirror {{\n path = "{tmp_path}/named"\n')

    environment = {"TF_CLI_CONFIG_FILE": str(tmp_path / "cli.tfrc"), "TF_PLUGIN_CACHE_DIR": str(tmp_path / "cache")}

    assert looked_for(tmp_path, **environment) == program


@pytest.mark.usefixtures("_on_linux")
def test_another_version_is_no_provider_of_ours(tmp_path: Path) -> None:
    placed(tmp_path / "opt" / "mirror", "6.0.0")

    assert looked_for(tmp_path) is None


def test_the_program_that_is_named_comes_first(tmp_path: Path) -> None:
    placed(tmp_path / "opt" / "mirror")
    (tmp_path / "own").touch()

    assert looked_for(tmp_path, **{NAMED: str(tmp_path / "own")}) == tmp_path / "own"


def without_the_provider(**environment: str) -> tuple[int, str]:
    """What two tests of the tier end with and say."""
    environment = {"PATH": os.environ["PATH"], NAMED: "/nowhere", **environment}
    asked = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "aws", "tests/aws/test_inputs.py"]
    done = subprocess.run([*asked, "-k", "demo or berlin"], cwd=ROOT, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout


@pytest.mark.process
def test_without_the_provider_one_line_says_how_to_get_it() -> None:
    status, told = without_the_provider()

    assert (status, told.count(HOW)) == (0, 1)
    assert "2 skipped" in told


@pytest.mark.process
def test_on_github_the_provider_may_not_be_missing() -> None:
    status, told = without_the_provider(GITHUB_ACTIONS="true")

    assert status == 1
    assert HOW in told
