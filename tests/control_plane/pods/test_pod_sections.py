"""What `check` accepts of a pod the API server accepts; what it refuses the server refuses, or a promise forbids."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from control_plane.plane.driver import ControlPlane

from controllers.adapters.kube_api import APPLY, ApiError, Json
from ebbtide.recording.output import output_files
from ebbtide.settings import Problem, StackInvalid, load_stack
from ebbtide.text.files import write_directory
from tests.builders.pod_sections import pod_section
from tests.builders.recorded import record
from tests.control_plane.support.applying import Applying, objects_in

pytestmark = pytest.mark.control_plane

SECTIONS = 300
BATCH = 30
"""Sections in a stack: each stack costs a second to render."""


def stack_of(workloads: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "config": {
            "ebbtide:customer": "acme",
            "ebbtide:businessHours": {"timezone": "Europe/Berlin", "week": {"mon-fri": "08:00-18:00"}},
            "ebbtide:nodeGroups": {"fixed": {"max": 100}},
            "ebbtide:workloads": workloads,
            "ebbtide:workers": {
                "train": {
                    "source": {"queues": ["train"]},
                    "image": "train:1",
                    "max": 4,
                    "cpu": 4,
                    "memory": "16Gi",
                    "longestJob": "1h",
                }
            },
        }
    }


def workload(seed: int) -> dict[str, Any]:
    section = pod_section(seed)
    claims = any("perPod" in volume for volume in section.get("volumes", {}).values())
    kind = {"kind": "stateful-set"} if claims or seed % 5 == 0 else {}
    return {"category": "flexible", "image": "api:1", "cpu": 1, "memory": "2Gi", **kind, **section}


def problems_of(workloads: Mapping[str, Any], folder: Path) -> tuple[Problem, ...]:
    path = folder / "Pulumi.generated.yaml"
    path.write_text(yaml.safe_dump(stack_of(workloads), allow_unicode=True), encoding="utf-8")
    try:
        load_stack(str(path))
    except StackInvalid as refused:
        return refused.problems
    return ()


def refusals(plane: ControlPlane, objects: Sequence[Json]) -> Iterator[str]:
    """What the server says to each object in a strict dry run of a server-side apply."""
    for each, path in zip(objects, Applying(plane.api).know(objects), strict=True):
        try:
            plane.api.patch(
                path, each, APPLY, fieldManager="kubectl", fieldValidation="Strict", force="false", dryRun="All"
            )
        except ApiError as error:
            yield f"{each['kind']} {each['metadata']['name']}: {error}"


THE_SERVER_TAKES = {
    "duration.zero": "the server writes its default over a zero, so the file would say what does not hold",
    "env.name": "servers of older minors refuse it, and no shell can use it",
    "memory.form": "a volume without room evicts its pod with the first byte",
    "number.too-small": "a priority below 1 may be pushed out; root is refused with the pod, long after the Deployment",
    "object.key": "no object can hold this key, so the pod would never start",
    "object.name": "no object can have this name, so the pod would never start",
    "probe.no-such-port": "the kubelet would ask a port that nobody serves, for ever",
    "probe.path": "the kubelet would ask for another path than the file says",
    "shm.above-memory": "the container is killed when it uses what it was promised",
    "snapshots.every": "no object says it; AWS would refuse it in the middle of an up",
    "snapshots.keep": "no object says it; AWS would refuse it in the middle of an up",
    "volume.path": "where a path without its root leads is up to the image",
}
"""Faults that the server accepts, and what they would do."""


def source_of(volume: Mapping[str, Any]) -> Json:
    match volume:
        case {"claim": name}:
            return {"persistentVolumeClaim": {"claimName": name}}
        case {"secret": name}:
            return {"secret": {"secretName": name}}
        case {"configMap": name}:
            return {"configMap": {"name": name}}
        case {"files": files}:
            return {"configMap": {"name": "api", "items": [{"key": key, "path": key} for key in files]}}
        case _:
            return {"emptyDir": {"sizeLimit": volume.get("scratch") or volume.get("perPod")}}


def devices(gpu: Any) -> Json:
    """As a limit, which the server takes for the request too."""
    given: Json = {"count": gpu} if isinstance(gpu, int) else gpu
    return {given.get("resource", "nvidia.com/gpu"): given.get("count", 1)}


def manifest_of(section: Mapping[str, Any]) -> Json:
    """A Deployment with what a section says, written without looking at what it says."""
    volumes, mounts, container = list[Json](), list[Json](), dict[str, Any]()
    for name, volume in section.get("volumes", {}).items():
        volumes.append({"name": name, **source_of(volume)})
        mounts.append({"name": name, "mountPath": volume["at"]})
    if "shm" in section:
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": section["shm"]}})
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})
    container["env"] = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": given["field"]}}}
        for name, given in section.get("env", {}).items()
        if "field" in given
    ]
    container["ports"] = [{"name": name, "containerPort": number} for name, number in section.get("ports", {}).items()]
    requests = {"cpu": 1, "memory": "2Gi"}
    container["resources"] = {
        "requests": requests,
        "limits": {"memory": "2Gi", **section.get("limits", {}), **devices(section.get("gpu", 0))},
    }
    metadata = {"labels": {"app": "api", **section.get("labels", {})}, "annotations": section.get("annotations", {})}
    pod = {"containers": [{"name": "api", "image": "api:1", "volumeMounts": mounts, **container}], "volumes": volumes}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "api", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "api"}}, "template": {"metadata": metadata, "spec": pod}},
    }


def test_what_check_refuses_the_server_refuses_or_worse_would_follow(plane: ControlPlane, tmp_path: Path) -> None:
    refused: Counter[str] = Counter()
    for seed in range(SECTIONS):
        problems = problems_of({"api": workload(seed)}, tmp_path)
        if not problems or problems[0].code in THE_SERVER_TAKES:
            continue
        said = list(refusals(plane, [manifest_of(workload(seed))]))
        assert said, f"{problems[0]}: the server takes it"
        refused[problems[0].code] += 1
    assert len(refused) >= 6, refused


def test_what_check_accepts_passes_a_strict_dry_run(plane: ControlPlane, tmp_path: Path) -> None:
    accepted: dict[str, Any] = {}
    refused: Counter[str] = Counter()
    for seed in range(SECTIONS):
        problems = problems_of({"api": workload(seed)}, tmp_path)
        if problems:
            refused.update({problem.code for problem in problems})
        else:
            accepted[f"api-{seed}"] = workload(seed)
    assert len(accepted) > SECTIONS / 4
    assert len(refused) > 12, refused
    names = list(accepted)
    for start in range(0, len(names), BATCH):
        batch = {name: accepted[name] for name in names[start : start + BATCH]}
        assert problems_of(batch, tmp_path) == ()
        folder = tmp_path / f"out-{start}"
        write_directory(folder, output_files(record(load_stack(str(tmp_path / "Pulumi.generated.yaml")))))
        objects = objects_in(folder)
        for space in (each for each in objects if each["kind"] == "Namespace"):
            Applying(plane.api).apply([space])
        assert list(refusals(plane, objects)) == []
