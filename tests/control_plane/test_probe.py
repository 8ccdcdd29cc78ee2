"""`ebbtide probe` against the real API server: a cluster that has all, an account that may nothing, one that may just
enough.
"""

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from control_plane.plane.driver import ControlPlane
from typer.testing import CliRunner

from ebbtide.cli.__main__ import app
from ebbtide.operate.probe.rights import rights_of
from ebbtide.recording.output import output_files
from ebbtide.settings import StackSettings, load_stack
from ebbtide.text.files import write_directory
from tests.builders.control_plane import Fresh, eventually
from tests.builders.existing import onprem, twins, with_everything, written
from tests.builders.recorded import record
from tests.builders.settings import loaded
from tests.control_plane.support.applying import Applying, objects_in

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
    text = onprem(f'clusterId: "{uid}", nodeSelectors: {{ {sets} }}', train="gpu: 2")
    stack = written(text.replace("max: 4", "max: 1"), tmp_path)

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
    assert f"and {len(rights_of(record(loaded(onprem(), tmp_path)))) - 3} more" in said["rights"]
    assert said["nodes fixed"].startswith("note: nodes cannot be read")
    assert said["ebbtide"].startswith("note: whether it is installed cannot be read")


@pytest.fixture
def settings(request: pytest.FixtureRequest) -> StackSettings:
    """Of a plain stack, or of one with each kind of object that a stack can have."""
    return with_everything() if getattr(request, "param", "") == "everything" else twins("demo", {})[1]


@pytest.fixture
def deployer(control_plane: ControlPlane, fresh: Fresh, settings: StackSettings) -> tuple[str, str]:
    """With the rights that the probe asks for, one rule each, and no other."""
    rights = rights_of(record(settings))
    rules = [{"verbs": [r.verb], "apiGroups": [r.group], "resources": [r.resource]} for r in rights]
    made = account(control_plane, fresh, rules)
    may = control_plane.api_as(*made)
    eventually(lambda: may.get("/api/v1/namespaces/kube-system"), what="the rights to be known")
    return made


@pytest.fixture
def admin(control_plane: ControlPlane) -> Iterator[Applying]:
    applying = Applying(control_plane.api)
    yield applying
    applying.delete()


@pytest.mark.parametrize("settings", ["plain", "everything"], indirect=True)
def test_the_rights_that_it_asks_for_are_enough_to_bring_a_stack_up(
    control_plane: ControlPlane, deployer: tuple[str, str], admin: Applying, settings: StackSettings, tmp_path: Path
) -> None:
    write_directory(tmp_path, output_files(record(settings)))
    objects = objects_in(tmp_path)
    admin.know(objects)
    teams = sorted({rule.namespace for rule in settings.adopted.values()})
    admin.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}} for team in teams])

    states = Applying(control_plane.api_as(*deployer)).apply(objects)
    _, said = probed(control_plane.kubeconfig_as(*deployer))

    assert len(states) == len(objects) > 40
    assert said["rights"].startswith("ok: ")


def test_a_claim_of_one_node_and_a_config_map_without_the_key_are_told(
    control_plane: ControlPlane, admin: Applying, tmp_path: Path
) -> None:
    more = "volumes: { models: { claim: models, at: /m } }, env: { A: { configMap: flags, key: beta } }"
    stack = written(onprem(train=more), tmp_path)
    write_directory(tmp_path / "out", output_files(record(load_stack(stack))))
    admin.apply([each for each in objects_in(tmp_path / "out") if each["kind"] == "Namespace"])
    here = {"namespace": "ebbtide-workers"}
    disk = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "models", **here}, "spec": disk}
    flags = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "flags", **here}, "data": {"alpha": "1"}}
    admin.apply([claim, flags])

    code, said = probed(control_plane.kubeconfig, stack)

    assert code == 1
    assert said["PersistentVolumeClaim ebbtide-workers/models"] == (
        "missing: ReadWriteOnce, which one node has at a time, while 4 pods mount it at once for workers.train; "
        "make it ReadWriteMany, or run one pod"
    )
    assert said["ConfigMap ebbtide-workers/flags"] == (
        "missing: lacks the key beta for workers.train, found alpha; add it"
    )


def test_gpus_by_the_memory_that_their_nodes_tell(control_plane: ControlPlane, fresh: Fresh, tmp_path: Path) -> None:
    pool = secrets.token_hex(4)
    ready_node(control_plane, fresh, labels={"pool": pool, "nvidia.com/gpu.memory": "23028"}, gpu=1)
    text = onprem(f'nodeSelectors: {{ gpu: {{ pool: "{pool}" }} }}', train="gpu: { memory: MEMORY }")
    text = text.replace("max: 4", "max: 1")

    _, enough = probed(control_plane.kubeconfig, written(text.replace("MEMORY", "22Gi"), tmp_path))
    _, little = probed(control_plane.kubeconfig, written(text.replace("MEMORY", "40Gi"), tmp_path))

    assert enough["nodes gpu"] == f"ok: 1 with pool={pool}"
    assert little["nodes gpu"].startswith("missing: train wants GPUs of 40Gi; the largest GPU of nodes")
