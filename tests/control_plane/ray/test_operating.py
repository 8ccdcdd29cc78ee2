"""The operator's commands on a Ray cluster: a real API server, KubeRay's own operator, the real workload controller.

Only the way to the controller's `/status` is another: the API server's proxy needs a kubelet behind the pod.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from controllers.adapters.kube_api import APPLY
from ebbtide.cli.__main__ import app
from ebbtide.operate.objects import Document
from ebbtide.operate.probe.rights import rights_of
from ebbtide.operate.ray import facts as ray_facts
from ebbtide.operate.status import NoStatus
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.vocabulary.labels import APPLY_UNTIL, KEEP_UNTIL, NAMESPACE, PAUSED, SLEEP, SPEC, WAKE_UNTIL, WORKLOADS
from tests.builders.control_plane import Fresh, eventually
from tests.builders.recorded import record
from tests.builders.settings import loaded
from tests.builders.workloads.process import RayProcess, RecordedHead
from tests.control_plane.ray.conftest import CLUSTER, PODS, RAY, STACK, RayStack
from tests.control_plane.ray.test_workload_controller import (
    AT_ONCE,
    NEW,
    POOL,
    annotate,
    head,
    images,
    process,
    with_image,
)
from tests.control_plane.support.applying import NEW_KIND, Applying, objects_in
from tests.control_plane.test_probe import account

__all__ = ["head", "process"]

pytestmark = pytest.mark.control_plane


@pytest.fixture
def awake(
    ray_stack: RayStack, process: RayProcess, head: RecordedHead, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RayStack]:
    """With a head, two workers of cpu, a driver, and a controller that answers."""

    def asked(api: object, namespace: str, name: str = "") -> Document:
        del api, namespace
        if name != "ebbtide-workloads":
            raise NoStatus("no controller pod runs here")
        return process.status()

    monkeypatch.setattr(ray_facts, "from_pods", asked)
    head.state = "a driver"
    ray_stack.api.patch(POOL, {"spec": {"replicas": 0}})
    eventually(lambda: images(ray_stack, "headgroup"), what="the head's pod")
    ray_stack.scale(0, 2)
    eventually(lambda: len(images(ray_stack, "cpu")) == 2, what="two workers")
    yield ray_stack
    annotations = dict.fromkeys((PAUSED, KEEP_UNTIL, WAKE_UNTIL, APPLY_UNTIL))
    ray_stack.api.patch(CLUSTER, {"metadata": {"annotations": annotations}}, fieldManager="kubectl")


def run(stack: RayStack, *words: str) -> Result:
    arguments = [*words, "--kubeconfig", str(stack.plane.kubeconfig)]
    return CliRunner(env={"COLUMNS": "160"}).invoke(app, arguments, catch_exceptions=False)


def annotations(stack: RayStack) -> dict[str, str]:
    return stack.api.get(CLUSTER)["metadata"].get("annotations") or {}


def told(stack: RayStack, begin: str) -> str:
    output = run(stack, "status").output
    return next((line for line in output.splitlines() if line.startswith(begin)), output)


def test_status_tells_the_chain_as_kuberay_and_the_controller_see_it(awake: RayStack, process: RayProcess) -> None:
    counted = "demand   2 workers wanted by Ray, 2 ready, 2 available"
    eventually(lambda: told(awake, "demand") == counted, what="KubeRay's own count")
    eventually(lambda: process.workload().get("state") == "awake", what="the controller's look")

    assert told(awake, "state").startswith("state    awake since ")
    assert told(awake, "drivers") == "drivers  preprocess: 0 wanted, 0 ready, at most 3"
    assert told(awake, "cpu").split()[:6] == ["cpu", "2", "0", "20", "2", "running"]
    assert told(awake, "gpu").split()[:5] == ["gpu", "0", "0", "8", "none"]
    assert told(awake, "head").split()[:3] == ["head", "1", "running"]

    of_node, of_cluster = run(awake, "why", "node", "ray-flexible").output, run(awake, "why", "ray", "flow").output
    assert (
        "not evicted; Ray's autoscaler removes an idle one; it is a worker of group cpu of Ray cluster flow" in of_node
    )
    assert of_cluster.startswith("Ray cluster flow: awake since ")


def test_holds_of_a_ray_cluster_are_written_obeyed_and_taken_back(awake: RayStack, process: RayProcess) -> None:
    assert run(awake, "pause", "flow", "--why", "a look").exit_code == 0
    eventually(lambda: process.workload().get("why") == "paused", what="the pause to be obeyed")
    assert told(awake, "held") == "held     paused: a look"

    assert run(awake, "resume", "flow").exit_code == 0
    assert run(awake, "keep", "flow", "--until", "2h").exit_code == 0
    assert run(awake, "wake", "flow", "--until", "1h").exit_code == 0
    assert {PAUSED, KEEP_UNTIL, WAKE_UNTIL} & annotations(awake).keys() == {KEEP_UNTIL, WAKE_UNTIL}

    result = run(awake, "resume")

    assert "ray flow" in result.output
    assert not {PAUSED, KEEP_UNTIL, WAKE_UNTIL} & annotations(awake).keys()
    assert (
        "no Ray cluster and no workload that sleeps is called folw; there are: flow"
        in run(awake, "wake", "folw", "--until", "1h").output
    )


def test_a_maintenance_shows_what_it_interrupts_and_applies_the_new_image(awake: RayStack, process: RayProcess) -> None:
    annotate(awake, **{SPEC: with_image(awake.wanted, NEW), SLEEP: AT_ONCE})
    eventually(lambda: process.workload().get("spec") == "old-image", what="the pending image")
    eventually(lambda: process.workload()["why"] == "not-known-idle", what="a reading of the head")
    before = {it["metadata"]["uid"] for it in awake.api.get(PODS)["items"]}

    words = ("maintenance", "--for", "5m", "--why", "new image", "--ray", "flow")
    asked = run(awake, *words)

    assert (asked.exit_code, "wanted --yes" in asked.output) == (2, True), asked.output
    assert "headGroupSpec.template.spec.containers[0].image (old image)" in asked.output
    assert "the head says: driver: " in asked.output
    assert "3 pods go, the head among them" in asked.output
    assert APPLY_UNTIL not in annotations(awake)
    assert {it["metadata"]["uid"] for it in awake.api.get(PODS)["items"]} == before

    awake.api.patch(POOL, {"spec": {"replicas": 1}})  # or it would sleep once it has its spec
    done = run(awake, *words, "--yes")

    assert (done.exit_code, "ending: all is applied" in done.output) == (0, True), done.output
    assert APPLY_UNTIL not in annotations(awake)
    eventually(lambda: images(awake, "headgroup") == [NEW], what="a head with the new image")
    assert run(awake, *words).output.strip() == "nothing to apply: no field of flow is pending"


def probed(stack: RayStack, file: Path) -> dict[str, str]:
    """State and sentence by what they are about."""
    found = json.loads(run(stack, "probe", str(file), "--json").stdout)["findings"]
    return {it["what"]: f"{it['state']}: {it['said']}" for it in found}


def test_probe_finds_ray_sound_and_then_what_was_broken(ray_stack: RayStack, tmp_path: Path) -> None:
    stack, file = ray_stack, tmp_path / "Pulumi.acme.yaml"
    file.write_text(STACK)
    spaces = (RAY, WORKER_NAMESPACE, NAMESPACE)
    for space in spaces:
        token = {
            "kind": "Secret",
            "apiVersion": "v1",
            "metadata": {"name": "flow-ray-token"},
            "data": {"auth_token": "YQ=="},
        }
        stack.api.apply(f"/api/v1/namespaces/{space}/secrets/flow-ray-token", token, manager="pulumi")

    sound = probed(stack, file)

    assert {what: said.split(":")[0] for what, said in sound.items() if what.startswith("ray ")} == dict.fromkeys(
        (
            "ray definitions",
            "ray operator",
            "ray flow namespace",
            "ray flow token",
            "ray flow admission",
            "ray flow operator",
            "ray flow autoscaler",
            "ray flow workload controller",
        ),
        "ok",
    ), sound

    stack.api.patch(f"/api/v1/namespaces/{NAMESPACE}/secrets/flow-ray-token", {"data": {"auth_token": "Yg=="}})
    bindings = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{RAY}/rolebindings"
    binding = next(it for it in stack.api.get(bindings)["items"] if it["subjects"][0]["name"] == "flow-head")
    stack.api.delete(f"{bindings}/{binding['metadata']['name']}")
    pod = {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "x", "image": "kuberay/operator:v1"}]},
    }
    foreign = {"metadata": {"name": "foreign"}, "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": pod}}
    stack.api.create("/apis/apps/v1/namespaces/default/deployments", foreign)
    try:
        broken = eventually(
            lambda: it if "missing" in (it := probed(stack, file))["ray flow autoscaler"] else None,
            what="the right to be gone",
        )
    finally:
        stack.api.delete("/apis/apps/v1/namespaces/default/deployments/foreign")
        kept = {
            "metadata": {"name": binding["metadata"]["name"]},
            **{key: binding[key] for key in ("roleRef", "subjects")},
        }
        stack.api.create(bindings, kept)

    assert broken["ray flow token"].startswith(f"missing: the one in {NAMESPACE} differs from {RAY}")
    assert broken["ray operator"].startswith("missing: default/foreign watches all namespaces too")
    assert f"system:serviceaccount:{RAY}:flow-head may not " in broken["ray flow autoscaler"]


def of_ray(metadata: dict[str, Any]) -> bool:
    """What the stack has because of its Ray cluster."""
    return metadata.get("namespace") == RAY or any(word in metadata["name"] for word in ("ray", WORKLOADS))


def test_the_rights_that_the_probe_asks_for_are_enough_to_make_what_ray_needs(
    ray_stack: RayStack, fresh: Fresh, tmp_path: Path
) -> None:
    """Each object once more under another name, as a dry run: nobody may grant what he lacks himself."""
    rights = rights_of(record(loaded(STACK, tmp_path)))
    rules = [{"verbs": [r.verb], "apiGroups": [r.group], "resources": [r.resource]} for r in rights]
    namespace, name = account(ray_stack.plane, fresh, rules)
    may = ray_stack.plane.api_as(namespace, name)
    eventually(lambda: may.get("/api/v1/namespaces/kube-system"), what="the rights to be known")

    made = [each for each in objects_in(ray_stack.folder) if of_ray(each["metadata"])]
    for each in made:
        if each["kind"] != NEW_KIND:
            each["metadata"]["name"] += "-copy"
        (path,) = Applying(may).know([each])
        may.patch(path, each, APPLY, fieldManager="kubectl", dryRun="All", force="true")

    assert {"RayCluster", "Role", "RoleBinding", "Lease", NEW_KIND} <= {each["kind"] for each in made}
