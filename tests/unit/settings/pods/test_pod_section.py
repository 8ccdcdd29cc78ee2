"""The keys that every pod has: accepted values, and one line per fault."""

from datetime import timedelta
from pathlib import Path

import pytest

from tests.builders.existing import onprem
from tests.builders.settings import loaded, problem_of, problems_of, shortest

DAILY = "snapshots: { every: 24h, keep: 7 }"
API = "category: flexible, image: api, cpu: 1, memory: 2Gi"


def api(more: str) -> str:
    return shortest(more=f"ebbtide:workloads: {{ api: {{ {API}, {more} }} }}")


def codes_of(text: str, folder: Path) -> list[str]:
    return sorted(problem.code for problem in problems_of(text, folder))


def test_a_pod_has_what_kubernetes_gives_it_unless_the_file_says_otherwise(tmp_path: Path) -> None:
    pod = loaded(api("replicas: 2"), tmp_path).workloads["api"]

    assert (pod.env, pod.ports, pod.volumes, pod.shm, pod.priority) == ({}, {}, {}, None, None)
    assert (pod.user, pod.writable_root) == (1000, True)


def test_a_text_alone_is_the_value_of_a_variable(tmp_path: Path) -> None:
    pod = loaded(api("env: { LEVEL: info, SAME: { value: info } }"), tmp_path).workloads["api"]

    assert [variable.value for variable in pod.env.values()] == ["info", "info"]


@pytest.mark.parametrize(
    ("more", "code", "path"),
    [
        ("env: { '1B': x1 }", "env.name", "env.1B"),
        ("env: { PORT: 8080 }", "env.not-text", "env.PORT"),
        ("env: { A: { field: spec.image } }", "env.field", "env.A.field"),
        ("env: { A: { secret: db } }", "env.no-key", "env.A.key"),
        ("env: { A: { field: metadata.name, key: k } }", "env.stray-key", "env.A"),
        ("env: { A: { secret: db, configMap: db, key: k } }", "kind.exactly-one", "env.A"),
        ("env: { A: { secret: DB, key: k } }", "object.name", "env.A.secret"),
        ("env: { A: { secret: db, key: a/b } }", "object.key", "env.A.key"),
        ("envFrom: [{ prefix: DB_ }]", "kind.exactly-one", "envFrom[0]"),
        ("ports: { HTTP: 80 }", "port.name", "ports.HTTP"),
        ("ports: { http: 70000 }", "number.too-large", "ports.http"),
        ("ports: { http: 80, web: 80 }", "port.twice", "ports.web"),
        ("ports: { http: 80 }, probes: { liveness: { tcp: grpc } }", "probe.no-such-port", "probes.liveness.tcp"),
        ("probes: { liveness: { http: /ok } }", "probe.no-such-port", "probes.liveness.port"),
        ("ports: { http: 80 }, probes: { liveness: { http: ok } }", "probe.path", "probes.liveness.http"),
        ("probes: { liveness: {} }", "kind.exactly-one", "probes.liveness"),
        ("ports: { http: 80 }, probes: { startup: { tcp: 80, port: 80 } }", "probe.stray-port", "startup.port"),
        ("ports: { http: 80 }, probes: { startup: { tcp: 80, service: a } }", "probe.stray-service", "startup.service"),
        ("ports: { a: 80 }, probes: { startup: { tcp: 80, every: 2s, timeout: 3s } }", "probe.timeout", "timeout"),
        ("shm: 3Gi", "shm.above-memory", "shm"),
        ("limits: { memory: 1Gi }", "limits.below-request", "limits.memory"),
        ("limits: { cpu: 500m }", "limits.below-request", "limits.cpu"),
        ("user: 0", "number.too-small", "user"),
        ("priority: 0", "number.too-small", "priority"),
        ("labels: { ebbtide.dev/category: worker }", "label.ours", "labels.ebbtide.dev/category"),
        ("labels: { a b: c }", "label.key", "labels.a b"),
        ("labels: { a: b c }", "label.value", "labels.a"),
        (
            "annotations: { cluster-autoscaler.kubernetes.io/safe-to-evict: 'true' }",
            "annotation.promised",
            "annotations.cluster-autoscaler.kubernetes.io/safe-to-evict",
        ),
        ("volumes: { a: { at: /a } }", "kind.exactly-one", "volumes.a"),
        ("volumes: { a: { at: a, scratch: 1Gi } }", "volume.path", "volumes.a.at"),
        ("volumes: { a: { at: /a/../b, scratch: 1Gi } }", "volume.path", "volumes.a.at"),
        ("volumes: { shm: { at: /a, scratch: 1Gi } }", "volume.name", "volumes.shm"),
        ("shm: 1Gi, volumes: { a: { at: /dev/shm, scratch: 1Gi } }", "volume.path-twice", "volumes.a.at"),
        ("volumes: { a: { at: /a, claim: c, class: gp3 } }", "volume.stray-key", "volumes.a.class"),
        ("volumes: { a: { at: /a, scratch: 1Gi, readOnly: true } }", "volume.read-only", "volumes.a.readOnly"),
        ("volumes: { a: { at: /a, files: {} } }", "volume.no-files", "volumes.a.files"),
        ("volumes: { a: { at: /a, files: { b: 1 } } }", "file.text", "volumes.a.files.b"),
        ("volumes: { a: { at: /a, perPod: 1Gi } }", "volume.per-pod-kind", "volumes.a.perPod"),
        (f"volumes: {{ a: {{ at: /a, claim: c, {DAILY} }} }}", "volume.stray-key", "volumes.a.snapshots"),
        (f"volumes: {{ a: {{ at: /a, scratch: 1Gi, {DAILY} }} }}", "volume.stray-key", "volumes.a.snapshots"),
    ],
)
def test_a_fault_of_a_pod_has_one_line_at_its_place(more: str, code: str, path: str, tmp_path: Path) -> None:
    problem = problem_of(api(more), tmp_path)

    assert problem.code == code
    assert f"{path}: wanted" in problem


@pytest.mark.parametrize(("cpu", "memory"), [(1000, 2048), (1001, 2049)])
def test_limits_at_the_request_or_above_are_accepted(cpu: int, memory: int, tmp_path: Path) -> None:
    limits = loaded(api(f"limits: {{ cpu: {cpu}m, memory: {memory}Mi }}"), tmp_path).workloads["api"].limits

    assert (limits.cpu, limits.memory) == (cpu, memory)


def snapshots(keys: str) -> str:
    volume = f"{{ at: /a, perPod: 1Gi, {keys} }}"
    return api(f"kind: stateful-set, volumes: {{ a: {volume} }}")


@pytest.mark.parametrize("hours", [1, 2, 3, 4, 6, 8, 12, 24])
def test_snapshots_are_taken_at_the_intervals_that_aws_has(hours: int, tmp_path: Path) -> None:
    pod = loaded(snapshots(f"snapshots: {{ every: {hours}h, keep: 1000 }}"), tmp_path).workloads["api"]

    taken = pod.volumes["a"].snapshots
    assert taken is not None
    assert (taken.every, taken.keep) == (timedelta(hours=hours), 1000)


@pytest.mark.parametrize("every", ["5h", "0h", "48h", "24", "1d", "30m", "daily", "-1h", "true", "[24h]"])
def test_another_interval_is_refused_with_those_that_there_are(every: str, tmp_path: Path) -> None:
    problem = problem_of(snapshots(f"snapshots: {{ every: {every}, keep: 7 }}"), tmp_path)

    assert problem.tells("snapshots.every", "volumes.a.snapshots.every: wanted 1h, 2h, 3h, 4h, 6h, 8h, 12h or 24h")


@pytest.mark.parametrize("keep", ["0", "-1", "1001", "7.0", "seven", "true", "24h"])
def test_another_number_of_snapshots_is_refused_with_the_least_and_the_most(keep: str, tmp_path: Path) -> None:
    problem = problem_of(snapshots(f"snapshots: {{ every: 24h, keep: {keep} }}"), tmp_path)

    assert problem.tells("snapshots.keep", "volumes.a.snapshots.keep: wanted", "an integer from 1 to 1000")


def test_both_keys_of_snapshots_are_wanted(tmp_path: Path) -> None:
    assert codes_of(snapshots("snapshots: {}"), tmp_path) == ["key.missing", "key.missing"]


def test_snapshots_are_of_disks_whose_class_is_ebbtides(tmp_path: Path) -> None:
    problem = problem_of(snapshots(f"class: gp3, {DAILY}"), tmp_path)

    assert problem.tells("snapshots.named-class", "volumes.a.snapshots: wanted snapshots without class", "class: gp3")


def test_all_faults_of_snapshots_are_told_at_once(tmp_path: Path) -> None:
    text = snapshots("class: gp3, snapshots: { every: 5h, keep: 0 }")

    assert codes_of(text, tmp_path) == ["snapshots.every", "snapshots.keep"]


def test_on_an_existing_cluster_there_are_no_snapshots(tmp_path: Path) -> None:
    volume = f"{{ at: /a, perPod: 1Gi, {DAILY} }}"
    text = f"ebbtide:workloads: {{ api: {{ {API}, kind: stateful-set, volumes: {{ a: {volume} }} }} }}"

    assert problem_of(onprem(more=text), tmp_path).tells(
        "snapshots.existing-cluster", "ebbtide:workloads.api.volumes.a.snapshots: wanted no snapshots"
    )


def test_a_fixed_workload_has_no_priority_of_its_own(tmp_path: Path) -> None:
    text = api("priority: 5").replace("category: flexible", "category: fixed")

    assert problem_of(text, tmp_path).tells("priority.fixed", "api.priority:")


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ("ports: { http: 80 }, probes: { readiness: { tcp: http } }", "probe.readiness-of-worker"),
        ("volumes: { a: { at: /a, perPod: 1Gi } }", "volume.per-pod-kind"),
        ("env: { RQ_REDIS_URL: redis }", "env.ours"),
        ("env: { REDIS_PASSWORD: { secret: a, key: b } }", "env.ours"),
    ],
)
def test_what_would_break_a_worker_is_refused(more: str, code: str, tmp_path: Path) -> None:
    assert problem_of(shortest(train=more), tmp_path).code == code


def test_another_frameworks_variable_is_free(tmp_path: Path) -> None:
    assert (
        loaded(shortest(train="env: { REDIS_URL: mine }"), tmp_path).workers["train"].env["REDIS_URL"].value == "mine"
    )


def test_all_faults_of_a_pod_are_told_at_once(tmp_path: Path) -> None:
    text = api("ports: { http: 80 }, probes: { liveness: { tcp: a }, startup: { grpc: b } }, shm: 9Gi, env: { A: 1 }")

    assert codes_of(text, tmp_path) == ["env.not-text", "probe.no-such-port", "probe.no-such-port", "shm.above-memory"]


def test_the_secrets_that_a_pod_names_are_found(tmp_path: Path) -> None:
    more = (
        "env: { A: { secret: one, key: a } }, envFrom: [{ configMap: flags }, { secret: two }], "
        "volumes: { v: { secret: three, at: /v } }"
    )
    pod = loaded(api(more), tmp_path).workloads["api"]

    assert list(pod.secret_references()) == [
        (("env", "A"), "one", "a"),
        (("envFrom", 1), "two", None),
        (("volumes", "v"), "three", None),
    ]


def test_the_secrets_that_a_fragment_names_are_found_and_only_a_variable_reads_one_key(tmp_path: Path) -> None:
    variable = "{ name: A, valueFrom: { secretKeyRef: { name: one, key: a } } }"
    size = "resources: { requests: { cpu: 50m, memory: 64Mi }, limits: { memory: 64Mi } }"
    container = f"{{ name: init, image: a, {size}, env: [{variable}], envFrom: [{{ secretRef: {{ name: two }} }}] }}"
    volume = "{ name: v, secret: { secretName: three } }"
    pod = loaded(api(f"pod: {{ initContainers: [{container}], volumes: [{volume}] }}"), tmp_path).workloads["api"]

    assert [(at[1], name, key) for at, name, key in pod.secret_references()] == [
        ("initContainers", "one", "a"),
        ("initContainers", "two", None),
        ("volumes", "three", None),
    ]


def test_a_floor_on_a_fixed_workload_is_refused_without_leading_to_another_refusal(tmp_path: Path) -> None:
    """Nothing sets its requests, so no value of `vertical` would help."""
    pod = 'image: "a:1", cpu: 1, memory: 1Gi, verticalMin: { memory: 512Mi }'
    problem = problem_of(shortest(more=f"ebbtide:workloads: {{ db: {{ category: fixed, {pod} }} }}"), tmp_path)

    assert problem.tells("vertical.fixed", "db.verticalMin:", "wanted no verticalMin on a fixed workload")
    assert "inPlace" not in problem
