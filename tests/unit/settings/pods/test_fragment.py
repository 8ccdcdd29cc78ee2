"""`pod:`, a fragment of a PodSpec: unknown fields and broken promises are refused with their line."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ebbtide.settings.capacity.placement import PodSize
from ebbtide.settings.fragment.findings import fragment_findings
from ebbtide.settings.fragment.promises import PodFacts
from ebbtide.settings.fragment.size import total_size
from ebbtide.vocabulary.labels import CATEGORY, Category
from tests.builders.fragments import EMPTY, SMALL, container, native_sidecar
from tests.builders.settings import loaded, problem_of, problems_of, shortest, told

SERVICE = PodFacts(main="api", category=Category.FLEXIBLE, minor="1.36")
WORKER = PodFacts(main="worker", category=Category.WORKER, minor="1.36")
HOST = "kubernetes.io/hostname"


def stack(fragment: object, *, version: str = "1.35") -> str:
    return shortest(train=f"pod: {json.dumps(fragment)}", more=f'ebbtide:cluster: {{ version: "{version}" }}')


def codes(fragment: object, facts: PodFacts = SERVICE) -> dict[str, str]:
    """Return the codes by location in the fragment."""
    findings = list(fragment_findings(fragment, (), facts))
    by_place = {".".join(map(str, finding.at)): finding.code for finding in findings}
    assert len(by_place) == len(findings), findings
    return by_place


def term(**selector: Any) -> dict[str, Any]:
    return {"labelSelector": selector, "topologyKey": HOST}


def test_a_fragment_that_adds_is_taken_as_it_stands(tmp_path: Path) -> None:
    fragment = {
        "hostAliases": [{"ip": "10.0.0.9", "hostnames": ["licences.example.com"]}],
        "initContainers": [native_sidecar()],
        "tolerations": [{"key": "example.com/disk", "operator": "Exists"}],
        "volumes": [{"name": "models", "csi": {"driver": "secrets-store.csi.k8s.io", "readOnly": True}}],
        "containers": [{"name": "worker", "volumeMounts": [{"name": "models", "mountPath": "/models"}]}],
    }

    assert loaded(stack(fragment), tmp_path).workers["train"].pod == fragment


@pytest.mark.parametrize("name", [["api"], {"first": "api"}])
@pytest.mark.parametrize(
    ("at", "entry", "place"),
    [
        ("containers", {"image": "a:1", "resources": SMALL}, "containers.0.name"),
        ("initContainers", {"image": "a:1", "resources": SMALL}, "initContainers.0.name"),
        ("volumes", {"emptyDir": {}}, "volumes.0.name"),
        ("volumeMounts", {"mountPath": "/a"}, "containers.0.volumeMounts.0.name"),
        ("env", {"value": "1"}, "containers.0.env.0.name"),
        ("sysctls", {"value": "1"}, "securityContext.sysctls.0.name"),
    ],
)
def test_a_name_that_is_no_text_is_refused_at_its_place(
    at: str, entry: dict[str, object], place: str, name: object
) -> None:
    named: dict[str, object] = {at: [{"name": name, **entry}]}
    if at in {"volumeMounts", "env"}:
        named = {"containers": [{"name": "proxy", "image": "a:1", "resources": SMALL, **named}]}
    elif at == "sysctls":
        named = {"securityContext": named}

    assert place in codes(named)


@pytest.mark.parametrize(
    ("fragment", "place", "code"),
    [
        ({"serviceAccountName": "admin"}, "serviceAccountName", "pod-promise.own-key"),
        ({"automountServiceAccountToken": True}, "automountServiceAccountToken", "pod-promise.own-key"),
        ({"imagePullSecrets": [{"name": "a"}]}, "imagePullSecrets", "pod-promise.own-key"),
        ({"resources": SMALL}, "resources", "pod-promise.own-key"),
        ({"containers": [{"name": "api", "image": "a:1"}]}, "containers.0.image", "pod-promise.own-key"),
        ({"containers": [{"name": "api", "resources": SMALL}]}, "containers.0.resources", "pod-promise.own-key"),
        ({"containers": [{"name": "api", "command": ["sh"]}]}, "containers.0.command", "pod-promise.own-key"),
        ({"nodeName": "ip-10-0-0-1"}, "nodeName", "pod-promise.placement"),
        ({"schedulerName": "volcano"}, "schedulerName", "pod-promise.placement"),
        ({"schedulingGates": [{"name": "wait"}]}, "schedulingGates", "pod-promise.placement"),
        ({"nodeSelector": {"ebbtide.dev/node-kind": "fixed"}}, "nodeSelector.ebbtide.dev/node-kind", "…placement"),
        ({"nodeSelector": {"ebbtide.dev/node-group": "big"}}, "nodeSelector.ebbtide.dev/node-group", "…placement"),
        (
            {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                term(matchLabels={CATEGORY: "worker"})]}}},
            f"affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution.0.labelSelector.matchLabels.{CATEGORY}",
            "pod-promise.categories",
        ),
        ({"priorityClassName": "system-node-critical"}, "priorityClassName", "pod-promise.priority"),
        ({"preemptionPolicy": "PreemptLowerPriority"}, "preemptionPolicy", "pod-promise.priority"),
        ({"restartPolicy": "Never"}, "restartPolicy", "pod-promise.lasting"),
        ({"activeDeadlineSeconds": 60}, "activeDeadlineSeconds", "pod-promise.lasting"),
        ({"containers": [container(restartPolicy="Never")]}, "containers.0.restartPolicy", "pod-promise.lasting"),
        ({"overhead": {"cpu": "1"}}, "overhead", "pod-promise.size"),
        (
            {"containers": [container(resources={"requests": {"cpu": "1"}})]},
            "containers.0.resources.requests.memory",
            "pod-promise.size",
        ),
        (
            {"initContainers": [container(resources={"requests": {"memory": "1Gi"}})]},
            "initContainers.0.resources.requests.cpu",
            "pod-promise.size",
        ),
        (
            {"containers": [container(resources={**SMALL, "limits": {"nvidia.com/gpu": 1}})]},
            "containers.0.resources.limits.nvidia.com/gpu",
            "pod-promise.size",
        ),
        (
            {"containers": [container(resources={**SMALL, "limits": {"memory": "2Gi"}})]},
            "containers.0.resources.limits.memory",
            "pod-promise.size",
        ),
        ({"tolerations": [{"operator": "Exists"}]}, "tolerations.0.key", "pod-promise.nights"),
        (
            {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]},
            "tolerations.0.key",
            "pod-promise.nights",
        ),
        (
            {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "example.com/rack",
                                            "whenUnsatisfiable": "DoNotSchedule"}]},
            "topologySpreadConstraints.0.whenUnsatisfiable",
            "pod-promise.nights",
        ),
        (
            {"topologySpreadConstraints": [{"maxSkew": 9, "topologyKey": HOST, "whenUnsatisfiable": "ScheduleAnyway"}]},
            "topologySpreadConstraints.0.topologyKey",
            "pod-promise.spread",
        ),
        ({"volumes": [{"name": "ebbtide-ca-bundle", "emptyDir": EMPTY}]}, "volumes.0.name", "pod-promise.volume"),
        (
            {"volumes": [{"name": "a", "emptyDir": EMPTY}],
             "containers": [{"name": "api", "volumeMounts": [{"name": "a", "mountPath": "/etc/ebbtide-ca/"}]}]},
            "containers.0.volumeMounts.0.mountPath",
            "pod-promise.volume",
        ),
        (
            {"containers": [container(env=[{"name": "HTTPS_PROXY", "value": ""}])]},
            "containers.0.env.0.name",
            "pod-promise.variable",
        ),
        (
            {"volumes": [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]},
            "volumes.0.projected.sources.0.serviceAccountToken.audience",
            "pod-promise.token",
        ),
    ],
)  # fmt: skip
def test_a_promise_is_broken_by_no_fragment(fragment: object, place: str, code: str) -> None:
    assert codes(fragment) == {place: code.replace("…", "pod-promise.")}


@pytest.mark.parametrize(
    ("fragment", "place"),
    [
        ({"hostNetwork": True}, "hostNetwork"),
        ({"hostPID": True}, "hostPID"),
        ({"hostIPC": True}, "hostIPC"),
        ({"os": {"name": "windows"}}, "os.name"),
        ({"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}, "volumes.0.hostPath"),
        ({"volumes": [{"name": "share", "nfs": {"path": "/", "server": "nas"}}]}, "volumes.0.nfs"),
        ({"securityContext": {"runAsUser": 0}}, "securityContext.runAsUser"),
        ({"securityContext": {"runAsNonRoot": False}}, "securityContext.runAsNonRoot"),
        ({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, "securityContext.seccompProfile.type"),
        ({"securityContext": {"seLinuxOptions": {"user": "root"}}}, "securityContext.seLinuxOptions.user"),
        ({"securityContext": {"seLinuxOptions": {"type": "spc_t"}}}, "securityContext.seLinuxOptions.type"),
        ({"securityContext": {"windowsOptions": {"hostProcess": True}}}, "securityContext.windowsOptions"),
        ({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}, "securityContext.sysctls.0.name"),
        ({"containers": [{"name": "api", "securityContext": {"privileged": True}}]}, "…securityContext.privileged"),
        (
            {"containers": [{"name": "api", "securityContext": {"allowPrivilegeEscalation": True}}]},
            "…securityContext.allowPrivilegeEscalation",
        ),
        (
            {"containers": [{"name": "api", "securityContext": {"procMount": "Unmasked"}}]},
            "…securityContext.procMount",
        ),
        (
            {"containers": [container(securityContext={"capabilities": {"add": ["NET_BIND_SERVICE", "SYS_ADMIN"]}})]},
            "…securityContext.capabilities.add.1",
        ),
        ({"containers": [container(ports=[{"containerPort": 80, "hostPort": 80}])]}, "…ports.0.hostPort"),
        (
            {"containers": [container(livenessProbe={"tcpSocket": {"host": "10.0.0.1", "port": 1}})]},
            "…livenessProbe.tcpSocket.host",
        ),
    ],
)
def test_what_the_restricted_level_refuses_is_refused_before_the_api_server_does(fragment: object, place: str) -> None:
    assert codes(fragment) == {place.replace("…", "containers.0."): "pod-promise.restricted"}


@pytest.mark.parametrize(
    ("fragment", "place", "code"),
    [
        ({"terminationGracePeriodSeconds": 30}, "terminationGracePeriodSeconds", "pod-promise.grace"),
        ({"containers": [{"name": "worker", "lifecycle": EMPTY}]}, "containers.0.lifecycle", "pod-promise.grace"),
        ({"shareProcessNamespace": False}, "shareProcessNamespace", "pod-promise.process-namespace"),
        ({"readinessGates": [{"conditionType": "a"}]}, "readinessGates", "pod-promise.readiness"),
        ({"containers": [{"name": "worker", "readinessProbe": EMPTY}]}, "containers.0.readinessProbe", "….readiness"),
        ({"initContainers": [native_sidecar(readinessProbe=EMPTY)]}, "initContainers.0.readinessProbe", "….readiness"),
        ({"containers": [container()]}, "containers.0.name", "pod-promise.helper"),
    ],
)
def test_what_a_worker_is_promised_is_kept(fragment: object, place: str, code: str) -> None:
    assert codes(fragment, WORKER) == {place: code.replace("….", "pod-promise.")}


@pytest.mark.parametrize(
    "fragment",
    [
        {"terminationGracePeriodSeconds": 30},
        {"shareProcessNamespace": True},
        {"readinessGates": [{"conditionType": "a"}]},
        {"containers": [container(readinessProbe={"tcpSocket": {"port": 80}})]},
        {"containers": [{"name": "api", "lifecycle": {"preStop": {"sleep": {"seconds": 5}}}}]},
    ],
)
def test_a_service_was_promised_none_of_that(fragment: object) -> None:
    assert codes(fragment) == {}


def test_a_hard_spread_of_fixed_pods_keeps_no_node_that_would_go() -> None:
    spread = [{"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule"}]

    fixed = PodFacts(main="api", category=Category.FIXED, minor="1.36")
    assert codes({"topologySpreadConstraints": spread}, fixed) == {}


@pytest.mark.parametrize(
    ("fragment", "place", "code"),
    [
        ({"nodeSelektor": EMPTY}, "nodeSelektor", "key.unknown"),
        ({"metadata": {"labels": EMPTY}}, "metadata", "key.unknown"),
        ({"dnsPolicy": "Clusterfirst"}, "dnsPolicy", "choice.unknown"),
        ({"hostAliases": EMPTY}, "hostAliases", "type.list"),
        ({"hostAliases": [{"hostnames": ["a"]}]}, "hostAliases.0.ip", "key.missing"),
        ({"hostAliases": [{"ip": "10.0.0.9"}, {"ip": "10.0.0.9"}]}, "hostAliases.1", "list.twice"),
        ({"hostAliases": [{"ip": 10}]}, "hostAliases.0.ip", "type.text"),
        ({"hostAliases": [{"ip": "10.0.0"}]}, "hostAliases.0.ip", "address.form"),
        ({"hostAliases": [{"ip": "fe80::1%eth0"}]}, "hostAliases.0.ip", "address.form"),
        ({"hostAliases": [{"ip": "::ffff:10.0.0.9"}]}, "hostAliases.0.ip", "address.form"),
        ({"dnsConfig": {"nameservers": ["::ffff:10.0.0.9"]}}, "dnsConfig.nameservers.0", "address.form"),
        ({"hostAliases": [{"ip": "10.0.0.9", "hostnames": ["ok", "A_b"]}]}, "hostAliases.0.hostnames.1",
         "dns-name.form"),
        ({"hostAliases": [{"ip": "10.0.0.9", "hostnames": ["a" * 64]}]}, "hostAliases.0.hostnames.0", "dns-name.form"),
        ({"dnsConfig": {"nameservers": ["dns.example.com"]}}, "dnsConfig.nameservers.0", "address.form"),
        ({"dnsConfig": {"nameservers": ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]}}, "dnsConfig.nameservers.3",
         "address.form"),
        ({"dnsConfig": {"searches": ["example.com", "a b"]}}, "dnsConfig.searches.1", "dns-name.form"),
        ({"hostname": "a.b"}, "hostname", "dns-name.form"),
        ({"subdomain": "A"}, "subdomain", "dns-name.form"),
        ({"containers": [container(ports=[{"containerPort": 65536}])]}, "containers.0.ports.0.containerPort",
         "port.number"),
        ({"containers": [container(ports=[{"containerPort": 80, "name": "eighty--80"}])]},
         "containers.0.ports.0.name", "port.name"),
        ({"containers": [container(livenessProbe={"httpGet": {"port": 0}})]},
         "containers.0.livenessProbe.httpGet.port", "port.reference"),
        ({"containers": [container(livenessProbe={"tcpSocket": {"port": "8080"}})]},
         "containers.0.livenessProbe.tcpSocket.port", "port.reference"),
        ({"containers": [container(livenessProbe={"grpc": {"port": 0}})]},
         "containers.0.livenessProbe.grpc.port", "port.number"),
        ({"containers": [container(env=[{"name": "1X", "value": "a"}])]}, "containers.0.env.0.name", "env.name"),
        ({"affinity": []}, "affinity", "type.mapping"),
        ({"nodeSelector": []}, "nodeSelector", "type.mapping"),
        ({"nodeSelector": {"disk": 1}}, "nodeSelector.disk", "type.text"),
        ({"enableServiceLinks": "no"}, "enableServiceLinks", "type.boolean"),
        ({"terminationGracePeriodSeconds": "30"}, "terminationGracePeriodSeconds", "type.whole-number"),
        ({"terminationGracePeriodSeconds": True}, "terminationGracePeriodSeconds", "type.whole-number"),
        ({"terminationGracePeriodSeconds": None}, "terminationGracePeriodSeconds", "type.whole-number"),
        ({"volumes": [{"name": "a", "emptyDir": {"sizeLimit": "1GB"}}]},
         "volumes.0.emptyDir.sizeLimit", "quantity.form"),
        ({"volumes": [{"name": "a", "emptyDir": EMPTY, "secret": EMPTY}]}, "volumes.0", "keys.not-both"),
        ({"volumes": [{"name": "a b", "emptyDir": EMPTY}]}, "volumes.0.name", "name.form"),
        ({"containers": [container(image=None)]}, "containers.0.image", "key.missing"),
        ({"containers": [container(image="a b")]}, "containers.0.image", "image.form"),
        ({"containers": [{"name": "api", "volumeMounts": [{"name": "modls", "mountPath": "/m"}]}]},
         "containers.0.volumeMounts.0.name", "name.unknown"),
        ({"containers": [container(ports=[{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}])]},
         "containers.0.ports.1", "list.twice"),
        ({"containers": [container(livenessProbe={"tcpSocket": {"port": 1.5}})]},
         "containers.0.livenessProbe.tcpSocket.port", "type.whole-number"),
        ({"containers": [container(resources={"requests": {"cpu": 2, "memory": "1Gi"}, "limits": {"cpu": "500m"}})]},
         "containers.0.resources.limits.cpu", "min.above-max"),
        ({"initContainers": [container("api")]}, "initContainers.0.name", "list.twice"),
        ({"initContainers": [container(livenessProbe=EMPTY)]}, "initContainers.0.livenessProbe", "pod.ends-first"),
    ],
)  # fmt: skip
def test_what_the_api_server_would_refuse_is_told_at_its_place(fragment: object, place: str, code: str) -> None:
    assert codes(fragment) == {place: code}


@pytest.mark.parametrize(
    "fragment",
    [
        {"hostAliases": [{"ip": "fd00::9", "hostnames": ["a", "a-1.example.com"]}]},
        {"dnsConfig": {"nameservers": ["10.0.0.1", "fd00::1"], "searches": [".", "_tcp.example.com", "example.com."]}},
        {"containers": [container(ports=[{"containerPort": 1}, {"containerPort": 65535, "name": "a-1"}])]},
        {"containers": [container(livenessProbe={"httpGet": {"port": "http"}})]},
    ],
)
def test_addresses_names_and_ports_of_any_form_that_kubernetes_takes_are_taken(fragment: object) -> None:
    assert codes(fragment) == {}


def test_each_fault_has_its_line_all_at_once(tmp_path: Path) -> None:
    text = shortest(
        more="""
        ebbtide:workloads:
          api:
            category: flexible
            image: "example.com/api:1"
            cpu: 1
            memory: 1Gi
            pod:
              hostNetwork: true
              containers:
                - name: api
                  tyt: true
        """
    )
    first = text.splitlines().index("  ebbtide:workloads:") + 1

    faults = {(problem.code, (problem.line or 0) - first) for problem in problems_of(text, tmp_path)}

    assert faults == {("pod-promise.restricted", 7), ("key.unknown", 10)}


@pytest.mark.parametrize(("version", "refused"), [("1.33", True), ("1.34", False)])
def test_a_field_newer_than_the_clusters_version_is_refused(version: str, refused: bool, tmp_path: Path) -> None:
    text = stack({"hostnameOverride": "licensed"}, version=version)

    if refused:
        assert problem_of(text, tmp_path).tells("pod.newer-field", "1.33", "1.34", "hostnameOverride")
    else:
        assert loaded(text, tmp_path).workers["train"].pod


def test_of_a_cluster_that_is_there_nobody_knows_the_version(tmp_path: Path) -> None:
    newer = stack({"hostnameOverride": "a"}, version="1.33")
    existing = newer.replace('version: "1.33"', "kind: existing, context: onprem")

    assert problem_of(newer, tmp_path).tells("pod.newer-field")
    assert loaded(existing, tmp_path).cluster.context == "onprem"


def test_a_volume_of_the_short_keys_has_its_name_to_itself() -> None:
    facts = replace(SERVICE, volumes=frozenset({"cache"}))
    mounted = {"containers": [{"name": "api", "volumeMounts": [{"name": "cache", "mountPath": "/cache"}]}]}

    assert codes({"volumes": [{"name": "cache", "emptyDir": EMPTY}]}, facts) == {"volumes.0.name": "pod-promise.volume"}
    assert codes(mounted, facts) == {}


def test_a_taint_that_throws_pods_out_may_be_tolerated_whatever_its_key() -> None:
    assert codes({"tolerations": [{"operator": "Exists", "effect": "NoExecute"}]}) == {}


def test_a_fragment_is_a_mapping(tmp_path: Path) -> None:
    assert problem_of(stack(["hostAliases"]), tmp_path).tells("type.mapping", "train.pod:")


def test_a_secret_in_a_fragment_is_refused_and_not_shown(tmp_path: Path) -> None:
    variable = {"name": "TOKEN", "value": {"secure": "v1:hunter2canary"}}

    problem = problem_of(stack({"initContainers": [native_sidecar(env=[variable])]}), tmp_path)

    assert problem.tells("secret.not-here", "initContainers[0].env[0].value")
    assert problem.tells("secret.not-here", "refer to it here: valueFrom: { secretKeyRef: { name: NAME, key: KEY } }")
    assert "hunter2" not in problem


def test_of_a_secret_in_a_fragment_no_form_is_asked(tmp_path: Path) -> None:
    secret = {"secure": "v1:hunter2canary"}

    told_of = problems_of(stack({"hostAliases": [{"ip": secret, "hostnames": [secret]}]}), tmp_path)

    assert [problem.code for problem in told_of] == ["secret.not-here"] * 2


def test_further_containers_are_named_by_digest_too(tmp_path: Path) -> None:
    text = stack({"initContainers": [native_sidecar()]}) + "  ebbtide:images: { requireDigests: true }\n"

    told_at = {told(problem).partition(": ")[2].partition(": ")[0] for problem in problems_of(text, tmp_path)}

    assert "ebbtide:workers.train.pod.initContainers[0].image" in told_at


MAIN = PodSize(cpu=1000, memory=1024, gpu=1)


def asking(cpu: str, memory: str, **fields: Any) -> dict[str, Any]:
    return container(resources={"requests": {"cpu": cpu, "memory": memory}}, **fields)


@pytest.mark.parametrize(
    ("fragment", "total"),
    [
        (EMPTY, (1000, 1024)),
        ({"containers": [asking("500m", "256Mi"), {"name": "api"}]}, (1500, 1280)),
        ({"initContainers": [asking("500m", "256Mi", restartPolicy="Always")]}, (1500, 1280)),
        ({"initContainers": [asking("500m", "256Mi")]}, (1000, 1024)),
        ({"initContainers": [asking("3", "256Mi"), asking("2", "4Gi")]}, (3000, 4096)),
        # One that stays is beside those that come later, and not beside those before it.
        ({"initContainers": [asking("100m", "1Gi", restartPolicy="Always"), asking("2", "2Gi")]}, (2100, 3072)),
        ({"initContainers": [asking("2", "2Gi"), asking("100m", "1Gi", restartPolicy="Always")]}, (2000, 2048)),
        ({"containers": [container(resources={"limits": {"cpu": "0.0005", "memory": "1"}})]}, (1001, 1025)),
    ],
)
def test_a_pod_asks_for_what_kubernetes_counts(fragment: object, total: tuple[int, int]) -> None:
    assert total_size(MAIN, fragment) == PodSize(cpu=total[0], memory=total[1], gpu=1)
