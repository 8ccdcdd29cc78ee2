"""Fragments of PodSpecs before a real API server: it takes what is accepted here, and refuses what is refused."""

from collections.abc import Mapping
from typing import Any

import pytest
from control_plane.plane.driver import ControlPlane
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from components.pods.worker_pool import WorkerPool, WorkerPoolArgs
from components.pods.workload import Workload, WorkloadArgs
from controllers.adapters.kube_api import APPLY, ApiError
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.fragment.findings import fragment_findings
from ebbtide.settings.fragment.promises import PodFacts
from ebbtide.vocabulary.labels import Category
from tests.builders.components import REDIS, STACK, recorded, the, worker_settings, workload_settings
from tests.builders.control_plane import Fresh, eventually
from tests.builders.fragments import container, fragments, native_sidecar
from tests.counts import examples

pytestmark = pytest.mark.control_plane

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
STRICT = {"fieldManager": "test", "dryRun": "All", "fieldValidation": "Strict"}


@pytest.fixture
def namespace(fresh: Fresh, control_plane: ControlPlane) -> str:
    made = fresh.namespace(**RESTRICTED)
    account = f"/api/v1/namespaces/{made}/serviceaccounts/default"
    eventually(lambda: control_plane.api.get(account), what="the namespace's account")
    return made


def deployment(category: Category, fragment: Mapping[str, Any]) -> Mapping[str, Any]:
    if category is Category.WORKER:
        pool = WorkerPoolArgs(stack=STACK, name="worker", settings=worker_settings(pod=fragment), redis=REDIS)
        return the(recorded(lambda: WorkerPool("worker", pool)), "Deployment").inputs
    workload = WorkloadArgs(
        name="api",
        namespace="any",
        stack=STACK,
        settings=workload_settings(category, pod=fragment),
        node_kind=NodeKind.FLEXIBLE,
    )
    return the(recorded(lambda: Workload("api", workload)), "Deployment").inputs


def taken(plane: ControlPlane, namespace: str, rendered: Mapping[str, Any]) -> None:
    """Tried as a Deployment and, since that is what the security level is enforced on, as a pod. Raises `ApiError`."""
    metadata = {"name": "tried", "namespace": namespace}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": rendered["spec"]}
    spec = {**rendered["spec"]["template"]["spec"], "serviceAccountName": "default"}  # as on every cluster but this
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    plane.api.patch(f"/apis/apps/v1/namespaces/{namespace}/deployments/tried", body, APPLY, **STRICT)
    plane.api.patch(f"/api/v1/namespaces/{namespace}/pods/tried", pod, APPLY, **STRICT)


@given(st.data(), st.sampled_from([Category.FLEXIBLE, Category.WORKER]))
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_api_server_takes_every_fragment_that_is_accepted(
    control_plane: ControlPlane, namespace: str, data: st.DataObject, category: Category
) -> None:
    main = "worker" if category is Category.WORKER else "api"
    fragment = data.draw(fragments(main))
    assume(not any(fragment_findings(fragment, (), PodFacts(main=main, category=category, minor="1.36"))))

    taken(control_plane, namespace, deployment(category, fragment))


@pytest.mark.parametrize(
    "fragment",
    [
        {"dnsConfig": {"options": [{"name": "ndots", "value": "1"}]}, "enableServiceLinks": False},
        {"hostAliases": [{"ip": "fd00::9", "hostnames": ["a", "a-1.example.com"]}]},
        {"dnsConfig": {"nameservers": ["10.0.0.1", "fd00::1"], "searches": [".", "_tcp.example.com", "example.com."]}},
        {"hostname": "licensed", "subdomain": "api", "setHostnameAsFQDN": True, "hostUsers": False},
        {"terminationGracePeriodSeconds": 90, "shareProcessNamespace": True},
        {"readinessGates": [{"conditionType": "example.com/ready"}]},
        {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "0"}], "fsGroup": 2000}},
        {"tolerations": [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]},
        {
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "example.com/rack", "whenUnsatisfiable": "ScheduleAnyway"}
            ]
        },
        {
            "volumes": [
                {"name": "token", "projected": {"sources": [
                    {"serviceAccountToken": {"path": "token", "audience": "vault"}},
                    {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                ]}},
                {"name": "work", "ephemeral": {"volumeClaimTemplate": {"spec": {
                    "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}}}},
                {"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
            ],
            "containers": [
                {
                    "name": "api",
                    "lifecycle": {"preStop": {"exec": {"command": ["sleep", "5"]}}},
                    "volumeMounts": [{"name": "token", "mountPath": "/token", "readOnly": True}],
                    "workingDir": "/srv",
                },
                container(
                    envFrom=[{"secretRef": {"name": "shipper", "optional": True}}],
                    env=[{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
                    livenessProbe={"exec": {"command": ["true"]}},
                    readinessProbe={"httpGet": {"path": "/", "port": "http"}},
                    ports=[{"name": "http", "containerPort": 8080}],
                ),
            ],
            "initContainers": [container("fetch", command=["true"]), native_sidecar("proxy")],
        },
    ],
)  # fmt: skip
def test_the_api_server_takes_what_people_reach_for_a_fragment_for(
    control_plane: ControlPlane, namespace: str, fragment: Mapping[str, Any]
) -> None:
    assert list(fragment_findings(fragment, (), PodFacts(main="api", category=Category.FLEXIBLE))) == []

    taken(control_plane, namespace, deployment(Category.FLEXIBLE, fragment))


@pytest.mark.parametrize(
    "fragment",
    [
        {"hostNetwork": True},
        {"hostPID": True},
        {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]},
        {"volumes": [{"name": "share", "nfs": {"path": "/", "server": "nas"}}]},
        {"securityContext": {"runAsUser": 0}},
        {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
        {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}},
        {"securityContext": {"seLinuxOptions": {"type": "spc_t"}}},
        {"containers": [{"name": "api", "securityContext": {"privileged": True, "allowPrivilegeEscalation": True}}]},
        {"containers": [container(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}})]},
        {"containers": [container(ports=[{"containerPort": 80, "hostPort": 80}])]},
        {"containers": [container(livenessProbe={"tcpSocket": {"host": "10.0.0.1", "port": 1}})]},
        {"restartPolicy": "Never"},
        {"activeDeadlineSeconds": 60},
        {"dnsPolicy": "Clusterfirst"},
        {"hostAliases": [{"ip": "10.0.0"}]},
        {"hostAliases": [{"ip": "fe80::1%eth0"}]},
        {"hostAliases": [{"ip": "::ffff:10.0.0.9"}]},
        {"dnsConfig": {"nameservers": ["::ffff:10.0.0.9"]}},
        {"hostAliases": [{"ip": "10.0.0.9", "hostnames": ["A_b"]}]},
        {"dnsConfig": {"nameservers": ["dns.example.com"]}},
        {"dnsConfig": {"nameservers": ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]}},
        {"dnsConfig": {"searches": ["a b"]}},
        {"hostname": "a.b"},
        {"subdomain": "A"},
        {"containers": [container(ports=[{"containerPort": 65536}])]},
        {"containers": [container(ports=[{"containerPort": 80, "name": "eighty--80"}])]},
        {"containers": [container(livenessProbe={"httpGet": {"port": 0}})]},
        {"containers": [container(livenessProbe={"tcpSocket": {"port": "8080"}})]},
        {"containers": [container(livenessProbe={"grpc": {"port": 0}})]},
        {"initContainers": [container(livenessProbe={"tcpSocket": {"port": 80}})]},
        {"initContainers": [native_sidecar("api")]},
        {"containers": [{"name": "api", "volumeMounts": [{"name": "modls", "mountPath": "/m"}]}]},
    ],
)
def test_the_api_server_refuses_what_is_refused_in_its_name(
    control_plane: ControlPlane, namespace: str, fragment: Mapping[str, Any]
) -> None:
    assert list(fragment_findings(fragment, (), PodFacts(main="api", category=Category.FLEXIBLE)))

    with pytest.raises(ApiError):
        taken(control_plane, namespace, deployment(Category.FLEXIBLE, fragment))
