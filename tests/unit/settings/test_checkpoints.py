"""A pool's checkpoints: location, contradictions, and the time of a stopping worker."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from components.cluster.autoscaler_settings import autoscaler_flags
from ebbtide.operate.probe.facts import Right
from ebbtide.operate.probe.rights import rights_of
from ebbtide.operate.probe.wants import wants_of
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings import warnings_of
from ebbtide.settings.sections.workers import WorkerSettings, grace_seconds
from tests.builders.existing import onprem
from tests.builders.recorded import record
from tests.builders.settings import loaded, problem_of, problems_of, shortest

S3 = "store: s3://acme-checkpoints"
LONG = f"{S3}, saveWithin: 12h, every: 12h"
SPOT = "ebbtide:nodeGroups: { spot: { max: 4 } }"


def with_checkpoints(section: str, keys: str = "", more: str = "") -> str:
    return shortest(train=f"checkpoints: {{ {section} }}{keys}", more=more)


def pool(section: str, folder: Path) -> WorkerSettings:
    return loaded(with_checkpoints(section), folder).workers["train"]


@pytest.mark.parametrize(
    ("section", "code", "at"),
    [
        ("every: 5m", "kind.exactly-one", "checkpoints:"),
        (f"{S3}, claim: checkpoints", "kind.exactly-one", "checkpoints:"),
        ("store: gs://acme-checkpoints", "checkpoints.store", "checkpoints.store:"),
        ("store: /mnt/checkpoints", "checkpoints.store", "checkpoints.store:"),
        ("store: s3://ab", "bucket.form", "checkpoints.store:"),
        (f"store: s3://{'a' * 64}", "bucket.form", "checkpoints.store:"),
        ("store: s3://Acme", "bucket.form", "checkpoints.store:"),
        ("store: s3://10.0.0.1", "bucket.form", "checkpoints.store:"),
        ("store: s3://acme--x-s3", "bucket.reserved", "checkpoints.store:"),
        ('store: "s3://"', "bucket.form", "checkpoints.store:"),
        ("store: s3://acme//jobs", "checkpoints.store", "checkpoints.store:"),
        ("store: s3://acme/../jobs", "checkpoints.store", "checkpoints.store:"),
        ('store: "s3://acme/my jobs"', "checkpoints.store", "checkpoints.store:"),
        (f"store: s3://acme/{'a' * 513}", "checkpoints.store", "checkpoints.store:"),
        ("claim: Checkpoints", "object.name", "checkpoints.claim:"),
        (f"{S3}, every: 60s", "checkpoints.every-too-short", "checkpoints.every:"),
        (f"{LONG}, required: true", "checkpoints.longer-than-job", "checkpoints.saveWithin:"),
        (f"{S3}, interruptible: never", "choice.unknown", "checkpoints.interruptible:"),
        (f"{S3}, required: 1", "type.boolean", "checkpoints.required:"),
        (f"{S3}, saveWithin: 0s", "duration.zero", "checkpoints.saveWithin:"),
    ],
)
def test_what_cannot_hold_is_refused_where_it_stands(section: str, code: str, at: str, tmp_path: Path) -> None:
    assert problem_of(with_checkpoints(section), tmp_path).tells(code, f"workers.train.{at}")


@pytest.mark.parametrize(
    "store", ["s3://abc", f"s3://{'a' * 63}", "s3://acme.data-1", "s3://acme/prod", f"s3://acme/{'a' * 512}"]
)
def test_a_bucket_may_be_named_as_s3_takes_it(store: str, tmp_path: Path) -> None:
    assert json.loads(variable_text(f"store: {store}", tmp_path))["store"] == f"{store}/acme/train"


def test_a_slash_at_the_end_of_a_store_makes_no_empty_name(tmp_path: Path) -> None:
    assert json.loads(variable_text("store: s3://acme/prod/", tmp_path))["store"] == "s3://acme/prod/acme/train"


def variable_text(section: str, folder: Path) -> str:
    checkpoints = pool(section, folder).checkpoints
    assert checkpoints is not None
    return checkpoints.variable("acme", "train")


def test_workers_are_told_the_store_and_seconds(tmp_path: Path) -> None:
    assert json.loads(variable_text("claim: checkpoints-efs", tmp_path)) == {
        "store": "/var/lib/ebbtide/checkpoints/acme/train",
        "every": 300,
        "saveWithin": 90,
        "required": False,
        "openWithin": 600,
    }
    keys = "required: true, every: 1h, saveWithin: 4m, openWithin: 30m"
    assert json.loads(variable_text(f"{S3}, {keys}", tmp_path)) == {
        "store": "s3://acme-checkpoints/acme/train",
        "every": 3600,
        "saveWithin": 240,
        "required": True,
        "openWithin": 1800,
    }


@pytest.mark.parametrize(
    ("given", "more"),
    [
        ("kind: celery, acks: late, queues: [train]", ""),
        ("kind: list, queues: [train]", ""),
        ("queues: [train]", ", command: [my, worker]"),
        ("queues: [train]", ", safeStop: false"),
    ],
)
def test_a_worker_that_may_not_pause_has_no_checkpoints_until_its_owner_says_so(
    given: str, more: str, tmp_path: Path
) -> None:
    text = with_checkpoints(S3, more).replace("queues: [train]", given)

    assert problem_of(text, tmp_path).tells("checkpoints.cannot-pause", "workers.train.safeStop:")
    said = with_checkpoints(S3, f"{more.replace(', safeStop: false', '')}, safeStop: true")
    assert loaded(said.replace("queues: [train]", given), tmp_path).workers["train"].checkpoints is not None


def test_only_required_checkpoints_shorten_what_a_stopped_worker_is_given(tmp_path: Path) -> None:
    job, save = timedelta(hours=12), timedelta(seconds=90)

    assert grace_seconds(pool(S3, tmp_path)) == job.total_seconds() + 120
    assert grace_seconds(pool(f"{S3}, required: true", tmp_path)) == 240 >= save.total_seconds() + 120


def test_the_autoscaler_waits_as_long_as_the_longest_stop(tmp_path: Path) -> None:
    def most(section: str) -> int:
        settings = loaded(with_checkpoints(section), tmp_path)
        return int(autoscaler_flags(settings)["max-graceful-termination-sec"])

    assert most(S3) == 12 * 3600 + 300
    assert most(f"{S3}, required: true") == 900
    assert most(f"{S3}, required: true, saveWithin: 1h, every: 1h") == 3600 + 300


@pytest.mark.parametrize(
    ("section", "codes"),
    [
        (f"{S3}, required: true, saveWithin: 101s", ["spot.long-saves"]),
        (S3, ["spot.long-jobs"]),
        (f"{S3}, saveWithin: 2m", ["spot.long-jobs", "spot.long-saves"]),
    ],
)
def test_spot_is_not_for_long_jobs_that_need_not_save_within_its_notice(
    section: str, codes: list[str], tmp_path: Path
) -> None:
    text = with_checkpoints(section, ", nodeGroup: spot", more=SPOT)

    assert sorted(problem.code for problem in problems_of(text, tmp_path)) == codes


@pytest.mark.parametrize("save", ["90s", "100s"])
def test_spot_is_for_jobs_of_any_length_that_must_save_within_its_notice(save: str, tmp_path: Path) -> None:
    text = with_checkpoints(f"{S3}, required: true, saveWithin: {save}", ", nodeGroup: spot", more=SPOT)

    assert loaded(text, tmp_path).workers["train"].longest_job == timedelta(hours=12)


def test_a_section_that_cannot_be_read_brings_no_second_fault_on_spot(tmp_path: Path) -> None:
    text = with_checkpoints(f"{S3}, required: yes please", ", nodeGroup: spot", more=SPOT)

    assert [problem.code for problem in problems_of(text, tmp_path)] == ["type.boolean"]


def test_a_pool_on_spot_that_must_save_is_not_told_that_nobody_tells_its_workers(tmp_path: Path) -> None:
    def codes(section: str) -> set[str]:
        text = with_checkpoints(section, ", nodeGroup: spot", more=SPOT).replace("12h", "30m")
        return {caution.code for caution in warnings_of(loaded(text, tmp_path)) if "spot" in caution.code}

    assert codes(S3) == {"spot.workers-not-told"}
    assert codes(f"{S3}, required: true") == set()


def test_a_disk_of_a_stateful_set_is_no_claim_for_checkpoints(tmp_path: Path) -> None:
    workload = 'category: fixed, image: "a:1", cpu: 1, memory: 1Gi, kind: stateful-set'
    more = f"ebbtide:workloads: {{ hub: {{ {workload}, volumes: {{ data: {{ perPod: 10Gi, at: /data }} }} }} }}"

    of_hub = problem_of(with_checkpoints("claim: data-hub-0", more=more), tmp_path)
    assert of_hub.tells("checkpoints.claim-of-one-pod", "checkpoints.claim:", "workloads.hub.volumes.data")
    assert loaded(with_checkpoints("claim: data-hub", more=more), tmp_path).workers


@pytest.mark.parametrize("at", ["/var/lib/ebbtide/checkpoints", "/var/lib/ebbtide", "/var/lib/ebbtide/checkpoints/a"])
def test_nothing_else_is_mounted_over_the_claim(at: str, tmp_path: Path) -> None:
    volume = f", volumes: {{ own: {{ scratch: 1Gi, at: {at} }} }}"

    assert problem_of(with_checkpoints("claim: efs", volume), tmp_path).tells("volume.path-twice", "volumes.own.at:")
    assert loaded(with_checkpoints(S3, volume), tmp_path).workers


def test_the_variable_of_checkpoints_is_ebbtides(tmp_path: Path) -> None:
    text = shortest(train='env: { EBBTIDE_CHECKPOINTS: "{}" }')

    assert problem_of(text, tmp_path).tells("env.ours", "env.EBBTIDE_CHECKPOINTS:")


@pytest.mark.parametrize(
    ("section", "more", "warned"),
    [
        (S3, "", True),
        (S3, ", aws: { buckets: { acme-checkpoints: read-write } }", True),
        (S3, ", aws: { buckets: { others: read-write-delete } }", True),
        (S3, ", aws: { buckets: { acme-checkpoints: read-write-delete } }", False),
        (S3, ', aws: { role: "arn:aws:iam::123456789012:role/train" }', False),
        (S3, ", serviceAccount: train", False),
        (S3, ", env: { AWS_ACCESS_KEY_ID: { secret: keys, key: id } }", False),
        ("claim: efs", "", False),
    ],
)
def test_a_pool_without_rights_to_its_bucket_is_told_how_it_gets_them(
    section: str, more: str, warned: bool, tmp_path: Path
) -> None:
    cautions = warnings_of(loaded(with_checkpoints(section, more), tmp_path))

    assert [caution.place for caution in cautions if caution.code == "checkpoints.no-rights"] == (
        ["workers.train.checkpoints.store"] if warned else []
    )


def test_the_probe_looks_for_the_claim_as_one_that_several_pods_mount(tmp_path: Path) -> None:
    text = onprem().replace("longestJob:", "checkpoints: { claim: efs }, longestJob:")

    (want,) = [want for want in wants_of(loaded(text, tmp_path), ()).objects if want.name == "efs"]
    assert str(want) == "PersistentVolumeClaim ebbtide-workers/efs"
    assert want.pods >= 2


def test_a_pool_whose_budget_is_opened_shares_its_name_with_no_workload(tmp_path: Path) -> None:
    more = (
        'ebbtide:workloads: { train: { category: flexible, image: "a:1", cpu: 1, memory: 1Gi, ports: { http: 80 } } }'
    )

    assert problem_of(with_checkpoints(S3, more=more), tmp_path).tells("name.taken", "workers.train:")
    assert loaded(shortest(more=more), tmp_path).workers


def test_the_probe_asks_for_the_rights_that_the_controller_is_granted(tmp_path: Path) -> None:
    def watched(section: str) -> bool:
        text = onprem().replace("longestJob:", f"{section}longestJob:")
        right = Right("watch", "policy", "poddisruptionbudgets", WORKER_NAMESPACE)
        return right in rights_of(record(loaded(text, tmp_path)))

    assert watched("checkpoints: { claim: efs }, ")
    assert not watched("")
