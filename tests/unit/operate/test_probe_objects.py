"""`ebbtide probe` looks for objects that a stack names and others make: Secrets, claims and classes."""

from pathlib import Path
from typing import Any

import pytest

from ebbtide.operate.probe.facts import ObjectWant, facts_of
from ebbtide.operate.probe.wants import Wants, merged_wants, wants_of
from tests.builders.existing import onprem
from tests.builders.settings import loaded, shortest
from tests.unit.operate.test_probe import DENIED, SYSTEM, CannedApi, CannedCluster, findings, namespace, run, written

WORKERS = "/api/v1/namespaces/ebbtide-workers"
TOKEN = ObjectWant("Secret", "ebbtide", "api", ("TOKEN",), "workloads.api")
CLAIM = ObjectWant("PersistentVolumeClaim", "ebbtide-workers", "models", wanted_by="workers.train")
CANARY = "aHVudGVyMg=="


def secret(*keys: str) -> dict[str, Any]:
    return {"data": dict.fromkeys(keys, CANARY)}


def verdict(want: ObjectWant, **answers: Any) -> str:
    """The line about it in a cluster that has both namespaces."""
    paths = {SYSTEM: namespace("acme"), WORKERS: namespace("acme"), **answers}
    return findings(CannedCluster(paths), Wants(customer="acme", objects=(want,)))[str(want)]


@pytest.mark.parametrize(
    ("want", "path", "line"),
    [
        (TOKEN, f"{SYSTEM}/secrets/api", "ok: there, with TOKEN"),
        (CLAIM, f"{WORKERS}/persistentvolumeclaims/models", "ok: there"),
        (
            ObjectWant("ConfigMap", "ebbtide", "flags", ("beta",), "workloads.api"),
            f"{SYSTEM}/configmaps/flags",
            "ok: there, with beta",
        ),
        (ObjectWant("StorageClass", "", "gp3"), "/apis/storage.k8s.io/v1/storageclasses/gp3", "ok: there"),
        (ObjectWant("IngressClass", "", "nginx"), "/apis/networking.k8s.io/v1/ingressclasses/nginx", "ok: there"),
    ],
)
def test_each_kind_is_looked_for_where_the_api_has_it(want: ObjectWant, path: str, line: str) -> None:
    assert verdict(want, **{path: secret(*want.keys)}) == line
    assert verdict(want).startswith("missing: not there")


def test_a_missing_object_is_named_with_what_needs_it() -> None:
    assert verdict(TOKEN) == "missing: not there for workloads.api; create it, or put it into ebbtide:secrets"


@pytest.mark.parametrize(("keys", "there"), [(("OTHER",), "OTHER"), ((), "no key")])
def test_a_secret_without_the_key_is_reported_without_values(keys: tuple[str, ...], there: str) -> None:
    line = verdict(TOKEN, **{f"{SYSTEM}/secrets/api": secret(*keys)})

    assert line == f"missing: lacks the key TOKEN for workloads.api, found {there}; add it"


def test_what_may_not_be_read_is_not_called_missing() -> None:
    line = verdict(TOKEN, **{f"{SYSTEM}/secrets/api": DENIED})

    assert line == "note: cannot be read: you need the right to get secrets in ebbtide"


def test_before_the_first_up_nothing_of_a_namespace_can_be_there() -> None:
    line = findings(CannedCluster(), Wants(objects=(TOKEN,)))["Secret ebbtide/api"]

    assert line.startswith("note: cannot exist before namespace ebbtide")


def test_no_value_of_a_secret_is_kept_or_printed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answers = {SYSTEM: namespace("acme"), f"{SYSTEM}/secrets/regcred": secret(".dockerconfigjson")}
    stack = written(onprem(more="ebbtide:images: { pullSecrets: [regcred] }"), tmp_path)

    result, _ = run(monkeypatch, CannedApi(answers), stack, "--json")
    facts = facts_of(CannedCluster(answers), {}, (), (ObjectWant("Secret", "ebbtide", "regcred"),))

    assert '"Secret ebbtide/regcred"' in result.output
    assert CANARY not in result.output + repr(facts)


def test_a_stack_needs_the_named_secrets_of_others_and_not_its_own(tmp_path: Path) -> None:
    more = (
        "ebbtide:images: { pullSecrets: [regcred, own] }\nebbtide:redis: { tls: { secret: redis-tls } }\n"
        "ebbtide:digestKey: { secure: A }\nebbtide:secrets: { own: { .dockerconfigjson: { secure: A } } }"
    )

    wanted = {(str(want), want.keys) for want in wants_of(loaded(onprem(more=more), tmp_path), ()).objects}

    assert wanted == {
        ("Secret ebbtide/regcred", ()),
        ("Secret ebbtide-workers/regcred", ()),
        ("Secret ebbtide/redis-tls", ("tls.crt", "tls.key", "ca.crt")),
        ("Secret ebbtide-workers/redis-tls", ("ca.crt",)),
    }


def test_an_object_that_is_needed_twice_is_looked_up_once_with_all_keys() -> None:
    again = TOKEN._replace(keys=("OTHER", "TOKEN"), wanted_by="workloads.web")

    assert merged_wants([TOKEN, CLAIM, again]) == (TOKEN._replace(keys=("TOKEN", "OTHER"), pods=2), CLAIM)


def test_what_the_pods_of_a_file_name_is_wanted_where_they_run(tmp_path: Path) -> None:
    web = "category: flexible, image: web, cpu: 1, memory: 1Gi, ports: { http: 80 }"
    text = shortest(
        train="volumes: { models: { claim: models-efs, at: /models } }, envFrom: [{ secret: tokens }]",
        more=f"""
        ebbtide:digestKey: {{ secure: AAA }}
        ebbtide:secrets: {{ ours: {{ TOKEN: {{ secure: AAA }} }} }}
        ebbtide:workloads:
          web:
            {{ {web}, ingress: {{ host: web.example.com, class: nginx }},
              env: {{ A: {{ secret: db, key: password }}, B: {{ secret: ours, key: TOKEN }} }} }}
          db:
            {{ category: fixed, kind: stateful-set, image: db, cpu: 1, memory: 1Gi,
              volumes: {{ data: {{ perPod: 1Gi, class: fast, at: /data }} }} }}
        """,
    )

    assert set(wants_of(loaded(text, tmp_path), ()).objects) == {
        ObjectWant("Secret", "ebbtide", "db", ("password",), "workloads.web"),
        ObjectWant("Secret", "ebbtide-workers", "tokens", (), "workers.train"),
        ObjectWant("PersistentVolumeClaim", "ebbtide-workers", "models-efs", (), "workers.train", 4),
        ObjectWant("StorageClass", "", "fast", (), "workloads.db"),
        ObjectWant("IngressClass", "", "nginx", (), "ingress"),
    }


def test_the_secret_of_the_controllers_own_user_is_needed_too(tmp_path: Path) -> None:
    reader = "controller: { user: reader, secret: redis-reader }"
    text = shortest(more=f"ebbtide:redis: {{ kind: url, url: 'redis://jobs@r.example', {reader} }}")

    assert set(wants_of(loaded(text, tmp_path), ()).objects) == {
        ObjectWant("Secret", "ebbtide", "redis-reader", ("password",), "redis.controller")
    }


def test_the_secret_that_leads_to_redis_is_ebbtides_own_where_ebbtide_writes_it(tmp_path: Path) -> None:
    redis = "env: { REDIS_URL: { secret: ebbtide-redis, key: url } }"
    size = "image: 'a:1', cpu: 1, memory: 1Gi"
    hub = "kubernetes: { rules: [{ groups: [''], resources: [pods], verbs: [get] }] }"
    text = onprem(
        more=(
            f"ebbtide:jobs: {{ fit: {{ {size}, longestRun: 1h, {redis} }} }}\n"
            f"ebbtide:workloads: {{ api: {{ {size}, category: flexible, {redis} }}, "
            f"hub: {{ {size}, category: fixed, {redis}, {hub} }} }}"
        ),
    )

    assert [str(want) for want in wants_of(loaded(text, tmp_path), ()).objects] == ["Secret ebbtide-hub/ebbtide-redis"]


def claim(*modes: str) -> dict[str, Any]:
    return {"spec": {"accessModes": list(modes)}}


@pytest.mark.parametrize(
    ("modes", "pods", "line"),
    [
        (("ReadWriteOnce",), 1, "ok: there"),
        (("ReadWriteMany",), 3, "ok: there"),
        (("ReadOnlyMany", "ReadWriteOnce"), 3, "ok: there"),
        ((), 3, "ok: there"),
        (
            ("ReadWriteOnce",),
            3,
            "missing: ReadWriteOnce, which one node has at a time, while 3 pods mount it at once for workers.train",
        ),
        (("ReadWriteOncePod",), 2, "missing: ReadWriteOncePod, which one node has at a time, while 2 pods mount it"),
    ],
)
def test_a_claim_of_one_node_that_several_pods_mount_is_reported(modes: tuple[str, ...], pods: int, line: str) -> None:
    want = CLAIM._replace(pods=pods)

    assert verdict(want, **{f"{WORKERS}/persistentvolumeclaims/models": claim(*modes)}).startswith(line)


MODELS = "volumes: { models: { claim: models, at: /models } }"


def test_each_pod_of_a_ray_group_mounts_a_claim(tmp_path: Path) -> None:
    pod = f"cpu: 2, memory: 8Gi, {MODELS}"
    ray = f"head: {{ cpu: 1, memory: 4Gi }}, groups: {{ cpu: {{ max: 5, {pod} }} }}, longestTask: 30m"
    text = shortest(more=f"ebbtide:ray: {{ flow: {{ version: '2.60.0', image: 'rayproject/ray:2.60.0', {ray} }} }}")

    assert [want.pods for want in wants_of(loaded(text, tmp_path), ()).objects] == [5]


def test_the_pods_of_all_who_mount_a_claim_count_together(tmp_path: Path) -> None:
    size = "image: 'a:1', cpu: 1, memory: 1Gi"
    text = onprem(
        train=f"{MODELS}, env: {{ A: {{ configMap: models, key: a }}, B: {{ configMap: models, key: b }} }}",
        more=(
            f"ebbtide:jobs: {{ fit: {{ {size}, longestRun: 1h, parallelism: 3, completions: 9, {MODELS} }} }}\n"
            f'ebbtide:cronJobs: {{ tidy: {{ {size}, longestRun: 1h, schedule: "0 3 * * *", {MODELS} }} }}\n'
            f"ebbtide:workloads: {{ api: {{ {size}, category: flexible, replicas: 2, {MODELS} }} }}"
        ),
    )

    wanted = {str(want): (want.pods, want.keys) for want in wants_of(loaded(text, tmp_path), ()).objects}

    assert wanted == {
        "PersistentVolumeClaim ebbtide-workers/models": (4 + 3 + 1, ()),
        "PersistentVolumeClaim ebbtide/models": (2, ()),
        "ConfigMap ebbtide-workers/models": (4, ("a", "b")),
    }


def test_config_maps_of_others_are_wanted_wherever_they_are_named_and_ebbtides_own_are_not(tmp_path: Path) -> None:
    text = onprem(
        train="""envFrom: [{ configMap: defaults }],
        volumes: { flags: { configMap: flags, at: /flags }, conf: { files: { a: b }, at: /conf } },
        pod: {
          volumes: [
            { name: more, configMap: { name: more } },
            { name: own, configMap: { name: train.conf } },
            { name: maybe, configMap: { name: maybe, optional: true } },
            { name: disk, persistentVolumeClaim: { claimName: disk } },
            { name: both, projected: { sources: [{ configMap: { name: projected } }] } }],
          initContainers: [{ name: first, image: "first:1", resources: { requests: { cpu: 50m, memory: 64Mi } },
            env: [{ name: A, valueFrom: { configMapKeyRef: { name: flags, key: beta } } }],
            envFrom: [{ configMapRef: { name: shared } }] }] }"""
    )

    wanted = {(want.kind, want.name): want.keys for want in wants_of(loaded(text, tmp_path), ()).objects}

    assert wanted == {
        ("ConfigMap", "defaults"): (),
        ("ConfigMap", "flags"): ("beta",),
        ("ConfigMap", "more"): (),
        ("ConfigMap", "projected"): (),
        ("ConfigMap", "shared"): (),
        ("PersistentVolumeClaim", "disk"): (),
    }


@pytest.mark.parametrize(
    ("sharing", "pods"), [("", 1), (", shared: false", 1), (", shared: true", 2)], ids=["nothing", "alone", "shared"]
)
def test_a_claim_that_a_release_mounts_twice_must_bear_it(sharing: str, pods: int, tmp_path: Path) -> None:
    pod = "category: flexible, image: 'a:1', cpu: 1, memory: 1Gi"
    volumes = f"volumes: {{ models: {{ claim: models, at: /models{sharing} }} }}"
    text = shortest(more=f"ebbtide:workloads: {{ api: {{ {pod}, {volumes} }} }}")

    assert [want.pods for want in wants_of(loaded(text, tmp_path), ()).objects] == [pods]
