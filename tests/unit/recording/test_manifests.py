"""Rendered manifests: complete, ordered, readable by YAML 1.1 and 1.2, and without secrets."""

from functools import cache
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.recording.output import document, is_object, manifests, steps
from ebbtide.recording.resources import Resource
from tests.builders.components import demo_stack

CLUSTER_WIDE = {"Namespace", "StorageClass", "ClusterRole", "ClusterRoleBinding"} | {
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}


def kubernetes(
    kind: str = "ConfigMap", name: str = "settings", *, ignored: tuple[str, ...] = (), **inputs: Any
) -> Resource:
    return Resource(
        urn=f"urn:{kind}:{name}",
        type=f"kubernetes:core/v1:{kind}",
        name=name,
        parent="",
        custom=True,
        ignore_changes=ignored,
        inputs={"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "ebbtide"}, **inputs},
    )


def objects(files: dict[str, str]) -> list[dict[str, Any]]:
    return [found for text in files.values() for found in yaml.safe_load_all(text) if found is not None]


@cache
def rendered() -> list[dict[str, Any]]:
    return objects(manifests(demo_stack()))


def test_every_object_of_a_stack_can_be_applied() -> None:
    assert {found["kind"] for found in rendered()} >= {"Namespace", "Deployment", "PodDisruptionBudget", "ConfigMap"}
    for found in rendered():
        assert found["apiVersion"]
        assert found["metadata"]["name"]
        assert ("namespace" in found["metadata"]) == (found["kind"] not in CLUSTER_WIDE), found["metadata"]


def test_no_object_is_lost_but_the_secrets() -> None:
    expected = [r for r in demo_stack() if is_object(r) and r.inputs["kind"] != "Secret"]

    assert len(rendered()) == len(expected)


def test_what_others_stand_on_comes_first() -> None:
    kinds = ["Deployment", "PodDisruptionBudget", "ConfigMap", "Role", "StorageClass", "Namespace"]
    files = manifests([kubernetes(kind) for kind in kinds])

    assert list(files) == sorted(files)
    assert [found["kind"] for found in objects(files)] == list(reversed(kinds))


@pytest.mark.parametrize(
    "kind",
    ["PersistentVolumeClaim", "HorizontalPodAutoscaler", "Ingress", "RuntimeClass", "ValidatingWebhookConfiguration"],
)
def test_pods_come_after_whatever_they_need(kind: str) -> None:
    """Kinds are sorted within a file, and these would come after a Deployment."""
    files = manifests([kubernetes("Deployment"), kubernetes("CronJob"), kubernetes(kind)])

    assert [found["kind"] for found in objects(files)] == [kind, "CronJob", "Deployment"]
    assert len(files) == 2


def test_what_nobody_knows_may_make_pods_and_comes_last() -> None:
    files = manifests([kubernetes("RayCluster"), kubernetes("ServiceAccount"), kubernetes("CustomResourceDefinition")])

    assert list(files)[-1] == "60-workloads.yaml"
    assert [found["kind"] for found in objects({"last": files["60-workloads.yaml"]})] == ["RayCluster"]


def pods(**spec: Any) -> Resource:
    return kubernetes("Deployment", "api", spec={"template": {"spec": spec}})


def test_the_steps_make_new_kinds_from_the_file_that_holds_them_and_wait_for_them() -> None:
    kind = kubernetes("CustomResourceDefinition", "gadgets", metadata={"name": "gadgets.example.com"})
    commands = steps([kind]).splitlines()

    assert "kubectl apply --server-side -f kubernetes/20-cluster.yaml" in commands
    assert "kubectl wait --for=condition=Established --timeout=60s crd/gadgets.example.com" in commands
    assert "kubectl wait" not in steps([pods()])


def test_the_steps_name_every_secret_that_pods_wait_for_once_and_how_to_make_it() -> None:
    login = {"name": "login", "namespace": "ebbtide", "annotations": {"ebbtide.dev/secret-keys": "password,url"}}
    taken = {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "login", "key": "password"}}}]}
    mounted = [{"name": "a", "secret": {"secretName": "tls", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}]
    stack = [
        kubernetes("Secret", "login", metadata=login, stringData={"password": "hush-hush"}),
        pods(containers=[taken], volumes=mounted, imagePullSecrets=[{"name": "regcred"}]),
        pods(containers=[{"envFrom": [{"secretRef": {"name": "whole"}}, {"configMapRef": {"name": "settings"}}]}]),
    ]

    lines = steps(stack).splitlines()
    made = [line for line in lines if "create secret" in line]
    registry = "--docker-server=… --docker-username=… --docker-password=…"
    assert made == [
        "kubectl create secret generic login --namespace ebbtide --from-literal=password=… --from-literal=url=…",
        f"kubectl create secret docker-registry regcred --namespace ebbtide {registry}",
        "kubectl create secret generic tls --namespace ebbtide --from-file=ca.crt=…",
        "kubectl create secret generic whole --namespace ebbtide --from-literal=…=…",
    ]
    between = [lines.index(f"kubectl apply --server-side -f kubernetes/{it}") for it in ("10-namespaces.yaml", "")]
    assert all(between[0] < lines.index(line) < between[1] for line in made)
    assert "../APPLY.md says how to create them first: ebbtide/login, ebbtide/regcred" in "".join(
        manifests(stack).values()
    )


def test_a_secret_that_a_pod_can_do_without_is_not_asked_for() -> None:
    optional = {"name": "extra", "optional": True}
    stack = [
        pods(
            containers=[
                {
                    "env": [{"name": "A", "valueFrom": {"secretKeyRef": {**optional, "key": "a"}}}],
                    "envFrom": [{"secretRef": optional}],
                }
            ],
            volumes=[{"name": "a", "secret": {"secretName": "extra", "optional": True}}],
        )
    ]

    assert "secret" not in steps(stack).lower()


def test_a_file_says_how_it_must_be_applied() -> None:
    assert all("kubectl apply --server-side" in text for text in manifests([kubernetes()]).values())


def named(name: str, kind: str) -> dict[str, Any]:
    (found,) = [it for it in rendered() if (it["metadata"]["name"], it["kind"]) == (name, kind)]
    return found


def test_fields_that_others_write_are_left_out() -> None:
    assert "replicas" not in named("train", "Deployment")["spec"]
    assert "maxUnavailable" not in named("api", "PodDisruptionBudget")["spec"]


def test_fields_that_stay_with_whoever_applies_are_there() -> None:
    assert named("api", "Deployment")["spec"]["replicas"] == 3
    assert named("ray-head", "PodDisruptionBudget")["spec"]["maxUnavailable"] == 0
    assert named("train", "PodDisruptionBudget")["spec"]["maxUnavailable"] == 0


def test_leaving_a_field_out_changes_nothing_else() -> None:
    spec = {"replicas": 0, "paused": False, "template": {"spec": {"replicas": "mine"}}}

    (found,) = yaml.safe_load_all(document(kubernetes("Deployment", spec=spec, ignored=("spec.replicas",))))

    assert found["spec"] == {"paused": False, "template": {"spec": {"replicas": "mine"}}}
    assert spec["replicas"] == 0


def test_only_what_is_handed_over_is_left_out() -> None:
    (found,) = yaml.safe_load_all(document(kubernetes(spec={"kept": 1}, ignored=("spec.kept",))))

    assert found["spec"] == {"kept": 1}


def test_the_file_of_the_pools_says_how_to_send_the_first_workers_home() -> None:
    files = manifests(demo_stack())
    command = "# kubectl --namespace ebbtide-workers scale deployment --all --replicas=0\n"

    assert [name for name, text in files.items() if command in text] == ["60-workloads.yaml"]
    assert "scale deployment" not in "".join(manifests([kubernetes("Deployment")]).values())


def test_annotations_for_pulumi_stay() -> None:
    assert named("train", "Deployment")["metadata"]["annotations"]["pulumi.com/skipAwait"] == "true"


def test_a_secret_is_replaced_by_the_way_to_make_it() -> None:
    secret = kubernetes(
        "Secret",
        "login",
        metadata={"name": "login", "namespace": "ebbtide", "annotations": {"ebbtide.dev/secret-keys": "user,password"}},
        stringData={"user": "queue", "password": "hush-hush"},
    )
    (text,) = manifests([secret]).values()

    assert "hush-hush" not in text
    assert objects({"file": text}) == []
    assert "create secret generic login --namespace ebbtide --from-literal=user=… --from-literal=password=…" in text


@pytest.mark.parametrize("text", ["1e3", "0o14", "0x1f", "22:00", "1_000", ".5", "~", "no", "on", "2026-12-24", "+1"])
def test_text_that_looks_like_something_else_is_quoted(text: str) -> None:
    line = next(line for line in document(kubernetes(data={"key": text})).splitlines() if "key:" in line)

    assert line.strip() in (f'key: "{text}"', f"key: '{text}'")


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.text(), max_size=4))
def test_text_survives(data: dict[str, str]) -> None:
    (found,) = yaml.safe_load_all(document(kubernetes(data=data)))

    assert found["data"] == data


def test_components_and_cloud_resources_are_no_objects() -> None:
    rendered = {id(resource) for resource in demo_stack() if is_object(resource)}

    for resource in demo_stack():
        if not resource.type.startswith("kubernetes:"):
            assert id(resource) not in rendered
