"""A fragment of a PodSpec in the rendered pods: it adds fields, and Ebbtide's stay."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pulumi_kubernetes.core.v1 as core
import pulumi_kubernetes.meta.v1 as meta
import pytest

from components.images import ImageSource
from components.pods.egress import Egress
from components.pods.fragment import merged, python_name
from components.pods.redis_access import RedisAuthority
from components.pods.worker_pool import WorkerPool, WorkerPoolArgs
from components.pods.workload import Workload, WorkloadArgs
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.fragment.promises import OUR_VARIABLES, OUR_VOLUMES
from ebbtide.settings.fragment.schema import type_named, type_names
from ebbtide.settings.sections.pods.pod import Gpu
from ebbtide.vocabulary.labels import Category
from tests.builders.authority import AUTHORITY
from tests.builders.components import REDIS, STACK, pod_of, recorded, the, worker_settings, workload_settings
from tests.builders.fragments import EMPTY, SMALL, container, native_sidecar

CLOSED = Egress(https_proxy="http://proxy:3128", ca_bundle=AUTHORITY)


def service(pod: Mapping[str, Any], category: Category = Category.FIXED, **settings: Any) -> Mapping[str, Any]:
    args = WorkloadArgs(
        stack=STACK,
        name="api",
        namespace="ebbtide",
        settings=workload_settings(category, pod=pod, **settings),
        node_kind=NodeKind.FIXED,
    )
    return pod_of(the(recorded(lambda: Workload("api", args)), "Deployment"))


def pool(pod: Mapping[str, Any], **settings: Any) -> Mapping[str, Any]:
    args = WorkerPoolArgs(
        stack=replace(STACK, egress=CLOSED, images=ImageSource(pull_secrets=("registry",))),
        name="train",
        settings=worker_settings(pod=pod, **settings),
        redis=REDIS,
        redis_authority=RedisAuthority(secret="redis-tls"),
    )
    return pod_of(the(recorded(lambda: WorkerPool("train", args)), "Deployment"))


def by_name(entries: Any) -> dict[str, Any]:
    return {entry["name"]: entry for entry in entries}


def test_an_empty_fragment_changes_nothing() -> None:
    pod: core.PodSpecArgsDict = {"containers": [{"name": "api", "image": "a:1"}]}

    assert merged(pod, {}, main="api") is pod


def test_lists_grow_and_mappings_gain_keys() -> None:
    toleration = {"key": "example.com/disk", "operator": "Exists"}
    term = {"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}}
    more = {
        "nodeSelector": {"example.com/disk": "ssd"},
        "tolerations": [toleration],
        "affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}},
        "dnsPolicy": "Default",
        "securityContext": {"fsGroup": 2000},
    }

    plain, pod = service(EMPTY, gpu=Gpu(count=1)), service(more, gpu=Gpu(count=1))

    assert pod["nodeSelector"] == {**plain["nodeSelector"], "example.com/disk": "ssd"}
    assert pod["tolerations"] == [*plain["tolerations"], toleration]
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    own = plain["affinity"]["podAffinity"][preferred]
    assert pod["affinity"] == {**plain["affinity"], "podAffinity": {preferred: [*own, term]}}
    assert pod["securityContext"] == {**plain["securityContext"], "fsGroup": 2000}
    assert pod["containers"] == plain["containers"]
    assert pod["dnsPolicy"] == "Default"


def test_an_entry_with_the_main_containers_name_says_more_of_it() -> None:
    more = {"name": "api", "workingDir": "/srv", "securityContext": {"readOnlyRootFilesystem": True}}

    (plain,), (api,) = service({})["containers"], service({"containers": [more]})["containers"]

    assert api == {
        **plain,
        "workingDir": "/srv",
        "securityContext": {**plain["securityContext"], "readOnlyRootFilesystem": True},
    }


def test_a_further_container_is_held_to_what_ebbtides_own_are() -> None:
    given = container(securityContext={"capabilities": {"add": ["NET_BIND_SERVICE"]}, "readOnlyRootFilesystem": True})

    pod = service({"containers": [given], "initContainers": [container("fetch")]})
    shipper, fetch = pod["containers"][1], pod["initContainers"][0]

    assert shipper["resources"] == fetch["resources"] == {**SMALL, "limits": {"memory": "64Mi"}}
    assert shipper["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert fetch["securityContext"] == pod["containers"][0]["securityContext"]


def test_what_every_container_of_a_closed_network_has_further_ones_have_as_well() -> None:
    pod = pool({"initContainers": [native_sidecar()], "volumes": [{"name": "models", "emptyDir": EMPTY}]})
    (worker,), (shipper,) = pod["containers"], pod["initContainers"]

    assert {*by_name(shipper["env"])} >= {"HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "REDIS_CA_FILE"}
    assert shipper["volumeMounts"] == worker["volumeMounts"]
    assert [*by_name(pod["volumes"])] == ["models", *reversed(list(OUR_VOLUMES))]
    assert pod["imagePullSecrets"] == [{"name": "registry"}]


def test_what_ebbtide_gives_to_every_container_no_fragment_may_name() -> None:
    shipper = pool({"initContainers": [native_sidecar()]})["initContainers"][0]

    assert {*by_name(shipper["env"])} <= OUR_VARIABLES
    assert {mount["name"]: mount["mountPath"] for mount in shipper["volumeMounts"]} == OUR_VOLUMES
    proxies = replace(CLOSED, http_proxy="http://proxy:3128").through({"containers": [{"name": "a"}]})
    assert {*by_name(proxies["containers"][0]["env"])} == OUR_VARIABLES - {"REDIS_CA_FILE"}  # type: ignore[index]


def test_keys_that_are_data_keep_their_spelling() -> None:
    csi = {"driver": "secrets-store.csi.k8s.io", "volumeAttributes": {"secretProviderClass": "aws", "snake_case": "1"}}

    assert service({"volumes": [{"name": "vault", "csi": csi}]})["volumes"] == [{"name": "vault", "csi": csi}]


@pytest.mark.parametrize("name", type_names())
def test_every_field_has_the_name_that_the_provider_gives_it(name: str) -> None:
    sdk = getattr(core, f"{name}ArgsDict", None) or getattr(meta, f"{name}ArgsDict", None)
    kind = type_named(name)

    if sdk is None:
        pytest.fail(f"the SDK has no {name}")
    assert kind
    unknown = {python_name(field) for field in kind.fields} - set(sdk.__annotations__)
    assert unknown == set()
