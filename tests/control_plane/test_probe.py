"""`ebbtide probe` against the real API server: a cluster that has all, an account that may nothing, one that may just
enough.
"""

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from control_plane.driver import ControlPlane
from typer.testing import CliRunner

from ebbtide.cli.__main__ import app
from ebbtide.cli.probe_wants import RIGHTS
from ebbtide.cli.render import output_files
from ebbtide.files import write_directory
from ebbtide.preview.recording import record
from tests.builders_applying import Applying, objects_in
from tests.builders_control_plane import Fresh, eventually
from tests.builders_existing import onprem, twins, written

pytestmark = pytest.mark.control_plane

RBAC = "/apis/rbac.authorization.k8s.io/v1"


def probed(kubeconfig: Path, *words: str) -> tuple[int, dict[str, str]]:
    """The exit code, and state and sentence by what they are about."""
    result = CliRunner().invoke(app, ["probe", *words, "--json", "--kubeconfig", str(kubeconfig), "--context", "test"])
    found = json.loads(result.stdout)["findings"]
    return result.exit_code, {one["what"]: f"{one['state']}: {one['said']}" for one in found}


def account(plane: ControlPlane, fresh: Fresh, rules: list[dict[str, Any]]) -> tuple[str, str]:
    """A service account with a role over the whole cluster; its namespace and its name."""
    namespace, name = fresh.namespace(), f"deployer-{secrets.token_hex(4)}"
    plane.api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
    fresh.create(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    fresh.create(f"{RBAC}/clusterrolebindings", {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]})
    return namespace, name


def ready_node(plane: ControlPlane, fresh: Fresh, **shape: Any) -> None:
    """A new node is closed to pods until its kubelet has reported."""
    path = f"/api/v1/nodes/{fresh.node(**shape)}"
    eventually(lambda: not plane.api.get(path)["spec"].get("taints"), what="the node to be ready")


@pytest.fixture
def storage(fresh: Fresh) -> None:
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    metadata = {"name": f"test-{secrets.token_hex(4)}", "annotations": default}
    fresh.create("/apis/storage.k8s.io/v1/storageclasses", {"metadata": metadata, "provisioner": "example.com/none"})


@pytest.mark.usefixtures("storage")
def test_a_cluster_that_has_all(control_plane: ControlPlane, fresh: Fresh, tmp_path: Path) -> None:
    pool = secrets.token_hex(4)
    ready_node(control_plane, fresh, labels={"pool": pool}, gpu=2)
    uid = str(control_plane.api.get("/api/v1/namespaces/kube-system")["metadata"]["uid"])
    sets = ", ".join(f"{name}: {{ pool: {json.dumps(pool)} }}" for name in ("fixed", "gpu"))
    stack = written(onprem(f'clusterId: "{uid}", nodeSelectors: {{ {sets} }}', train="gpu: 2"), tmp_path)

    code, said = probed(control_plane.kubeconfig, stack)

    assert code == 0, said
    assert said["cluster"] == f"ok: {uid}"
    assert said["version"].startswith(("ok: v1.", "note: v1."))
    assert said["nodes gpu"] == f"ok: 1 with pool={pool}"
    assert {said[what].split(":")[0] for what in ("budgets", "admission", "cron", "storage", "rights", "clock")} == {
        "ok"
    }


def test_the_wrong_cluster_and_gpus_that_are_not_there(
    control_plane: ControlPlane, fresh: Fresh, tmp_path: Path
) -> None:
    pool = secrets.token_hex(4)
    ready_node(control_plane, fresh, labels={"pool": pool})
    wrong = "00000000-0000-4000-8000-000000000000"
    text = onprem(f'clusterId: "{wrong}", nodeSelectors: {{ gpu: {{ pool: "{pool}" }} }}', train="gpu: 1")

    code, said = probed(control_plane.kubeconfig, written(text, tmp_path))

    assert code == 1
    assert said["cluster"].startswith(f"missing: wanted {wrong}, found ")
    assert said["nodes gpu"].startswith(
        f"missing: train wants 1 nvidia.com/gpu, and no node with pool={pool} offers any"
    )


def test_an_account_that_may_nothing_is_told_what_it_lacks(
    control_plane: ControlPlane, fresh: Fresh, tmp_path: Path
) -> None:
    namespace, name = account(control_plane, fresh, [])

    code, said = probed(control_plane.kubeconfig_as(namespace, name), written(onprem(), tmp_path))

    assert code == 1
    assert said["rights"].startswith("missing: you may not ")
    assert f"and {len(RIGHTS) - 3} more" in said["rights"]
    assert said["nodes fixed"].startswith("note: nodes cannot be seen")
    assert said["ebbtide"].startswith("note: whether one is installed cannot be seen")


@pytest.fixture
def deployer(control_plane: ControlPlane, fresh: Fresh) -> tuple[str, str]:
    """With the rights that the probe asks for, one rule each, and no other."""
    rules = [{"verbs": [r.verb], "apiGroups": [r.group], "resources": [r.resource]} for r in RIGHTS]
    made = account(control_plane, fresh, rules)
    may = control_plane.api_as(*made)
    eventually(lambda: may.get("/api/v1/namespaces/kube-system"), what="the rights to be known")
    return made


@pytest.fixture
def admin(control_plane: ControlPlane) -> Iterator[Applying]:
    applying = Applying(control_plane.api)
    yield applying
    applying.delete()


def test_the_rights_that_it_asks_for_are_enough_to_bring_a_stack_up(
    control_plane: ControlPlane, deployer: tuple[str, str], admin: Applying, tmp_path: Path
) -> None:
    write_directory(tmp_path, output_files(record(twins("demo", {})[1])))
    objects = objects_in(tmp_path)
    admin.know(objects)

    states = Applying(control_plane.api_as(*deployer)).apply(objects)
    _, said = probed(control_plane.kubeconfig_as(*deployer))

    assert len(states) == len(objects) > 40
    assert said["rights"].startswith("ok: ")
