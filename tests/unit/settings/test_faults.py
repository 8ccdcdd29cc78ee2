"""Invalid input: one line each with path, expected value, actual value and a hint; all at once."""

import re
from pathlib import Path

import pytest
from pulumi_aws import Region

from ebbtide.settings import StackInvalid, load_stack, parse_stack
from tests.builders.existing import onprem
from tests.builders.settings import loaded, problem_of, problems_of, shortest


def test_a_missing_stack_lists_those_that_exist(tmp_path: Path) -> None:
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "Pulumi.acme.yaml").write_text(shortest(), encoding="utf-8")

    with pytest.raises(StackInvalid, match="wanted the stack 'amce', found no such file; stacks here: acme"):
        load_stack("amce", tmp_path)


def test_a_directory_is_no_stack_file(tmp_path: Path) -> None:
    with pytest.raises(StackInvalid, match="wanted a readable file"):
        load_stack(f"{tmp_path}/")


def test_bytes_that_are_not_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.acme.yaml"
    path.write_bytes(b"\xff\xfe\x00")

    with pytest.raises(StackInvalid, match="wanted UTF-8 text"):
        load_stack(str(path))


def test_an_unknown_key_names_the_one_that_was_meant(tmp_path: Path) -> None:
    assert problem_of(shortest(train="jobsPerWorkr: 2"), tmp_path) == (
        ":5: ebbtide:workers.train.jobsPerWorkr: wanted a known key, found the key 'jobsPerWorkr'; "
        "did you mean jobsPerWorker?"
    )


def test_pythons_spelling_of_a_key_is_unknown(tmp_path: Path) -> None:
    assert problem_of(shortest(train="jobs_per_worker: 2"), tmp_path).tells(
        "key.unknown", "did you mean jobsPerWorker?"
    )


def test_a_section_without_its_namespace_is_recognised(tmp_path: Path) -> None:
    assert problem_of(shortest(more="redis: { kind: in-cluster }"), tmp_path).tells(
        "key.unknown", "did you mean ebbtide:redis?"
    )


def test_a_missing_key_says_what_it_is_for(tmp_path: Path) -> None:
    text = shortest().replace(" longestJob: 12h", "")

    assert problem_of(text, tmp_path) == (
        ":5: ebbtide:workers.train.longestJob: wanted this key (longest run time of a job. A stopping worker gets "
        "this long, so a value that is too short kills jobs. With checkpoints each attempt counts "
        "separately), found nothing (for example 12h)"
    )


def test_a_negative_duration_is_refused(tmp_path: Path) -> None:
    assert problem_of(shortest(train="stabilizationWindow: -5m"), tmp_path) == (
        ":5: ebbtide:workers.train.stabilizationWindow: wanted a duration: a whole number and s, m or h, found '-5m' "
        "(for example 15m); a duration is never negative"
    )


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ("max: 0", ("number.too-small", "found 0", "(for example 30)", "1")),
        ('max: "4"', ("type.whole-number", "found '4'", "(for example 30)", "write it without quotes")),
        ("max: true", ("type.whole-number", "found true")),
        ("max: 4, min: 5", ("min.above-max", "found 5", "4")),
        ("max: 4, stabilizationWindow: 90", ("duration.no-unit",)),
        ("max: 4, stabilizationWindow: 2d", ("duration.days",)),
        ("max: 4, safeStop: 1", ("type.boolean", "found 1")),
        ("max: 4, gpu: -1", ("number.too-small", "found -1", "0")),
    ],
)
def test_a_wrong_value_is_told_with_what_is_wanted(broken: str, words: tuple[str, ...], tmp_path: Path) -> None:
    assert problem_of(shortest().replace("max: 4", broken), tmp_path).tells(*words)


@pytest.mark.parametrize(
    ("was", "broken", "words"),
    [
        ("cpu: 4", "cpu: 0", ("cpu.form",)),
        ("cpu: 4", "cpu: 0.0001", ("cpu.form",)),
        ("memory: 16Gi", "memory: 16", ("memory.too-small",)),
        ("memory: 16Gi", "memory: 16gb", ("memory.form", "found '16gb'")),
        ('image: "example.com/train:1"', 'image: ""', ("image.form", "found ''")),
        ('image: "example.com/train:1"', "image: train@sha256:12", ("image.form",)),
        ("queues: [train]", "queues: []", ("list.empty", "found a list")),
        ("queues: [train]", "queues: [train, train]", ("list.twice",)),
        ("queues: [train]", "queues: train", ("type.list", "found 'train'")),
        ("queues: [train]", "kind: dramatiq, queues: [train]", ("choice.planned", "found 'dramatiq'")),
        ("queues: [train]", "kind: huey, queues: [train]", ("choice.planned", "found 'huey'")),
        ("customer: acme", "customer: Acme Inc", ("customer.name",)),
        ("customer: acme", "customer: 12", ("customer.name", "quote it")),
    ],
)
def test_quantities_images_and_names_are_checked(was: str, broken: str, words: tuple[str, ...], tmp_path: Path) -> None:
    assert problem_of(shortest().replace(was, broken), tmp_path).tells(*words)


@pytest.mark.parametrize(
    ("section", "key"),
    [
        ("ebbtide:egress: { allow: [] }", "egress.allow"),
        ("ebbtide:serving: { public: true, sources: [] }", "serving.sources"),
        (
            """
            ebbtide:workloads:
              api: { category: flexible, image: a, cpu: 1, memory: 2Gi, ports: { http: 80 }, expose: { sources: [] } }
            """,
            "workloads.api.expose.sources",
        ),
    ],
)
def test_a_list_of_who_may_is_not_written_empty_where_none_at_all_means_everybody(
    section: str, key: str, tmp_path: Path
) -> None:
    assert problem_of(shortest(more=section), tmp_path).tells("list.empty", f"ebbtide:{key}:", "at least one entry")


def test_a_stack_with_nothing_but_a_customer_is_told_what_it_may_run(tmp_path: Path) -> None:
    text = "".join(
        line for line in shortest().splitlines(keepends=True) if "train" not in line and "workers" not in line
    )

    assert problem_of(text, tmp_path).tells("workers.none", "something to run")


@pytest.mark.parametrize(
    ("section", "words"),
    [
        (
            "ebbtide:cluster: { version: 1.35 }",
            ("kubernetes-version.number", "found 1.35", '(for example "1.36")', "quote it", "1.30"),
        ),
        ("ebbtide:cluster: { kind: existing }", ("context.missing", "found nothing")),
        ("ebbtide:cluster: { context: prod }", ("key.of-existing-cluster",)),
        ("ebbtide:cluster: { zones: [a] }", ("zones.too-few",)),
        (
            "ebbtide:cluster: { zones: [us-east-1a, b] }",
            ("zone.letter", "zones[0]:", "found 'us-east-1a'", "(for example a)", "did you mean a?"),
        ),
        ("ebbtide:cluster: { zones: [a, B] }", ("zone.letter", "found 'B'", "(for example a)", "did you mean b?")),
        ("ebbtide:cluster: { zones: [a, i] }", ("zone.letter", "zones[1]:", "found 'i'")),
        ("ebbtide:cluster: { zones: [a, ab] }", ("zone.letter", "zones[1]:", "found 'ab'")),
        (
            'ebbtide:cluster: { version: "1.29" }',
            ("kubernetes-version.too-old", "found '1.29'", "1.33", "1.34", "1.35"),
        ),
        (
            "ebbtide:cluster: { version: v1.34.4 }",
            ("kubernetes-version.patch", "found 'v1.34.4'", '(for example "1.36")', "did you mean 1.34?"),
        ),
        ("ebbtide:redis: { kind: url }", ("redis-url.missing", "ebbtide:redis.url:", "found nothing")),
        ("ebbtide:redis: { url: 'redis://a:1/0' }", ("redis-url.other-kind",)),
        ("ebbtide:redis: { kind: url, url: 'http://a' }", ("redis-url.parts",)),
        ("ebbtide:redis: { kind: url, url: 'redis://a:x/0' }", ("redis-url.form",)),
        ("ebbtide:redis:", ("type.mapping", "ebbtide:redis:", "found nothing")),
        ("ebbtide:workloads: []", ("type.mapping", "ebbtide:workloads:", "found a list")),
        ("ebbtide:costs: { pricingAssumption: spot }", ("choice.unknown", "compute-1y-no-upfront")),
        ("ebbtide:costs: { expectedNodeHours: { flexibel: 2 } }", ("name.unknown", "did you mean flexible?")),
        ("ebbtide:costs: { before: { flexibel: 2 } }", ("name.unknown", "did you mean flexible?")),
        ("ebbtide:costs: { expectedNodeHours: { flexible: .nan } }", ("type.finite-number",)),
        ("aws:region: the moon", ("region.form", "aws:region:")),
        ("aws:region: us-est-1", ("region.form", "did you mean us-east-1 or us-west-1?")),
        ("aws:region: eu-centrl-1", ("region.form", "did you mean eu-central-1?")),
        ("ebbtide:redis: { ebbtide:costs: {} }", ("key.unknown", "directly below config:", "less")),
        (
            (
                "ebbtide:services: { a: { image: a, cpu: 1, memory: 1Gi, port: a, ports: { a: 1 }, longestRequest: 1s, "
                'probes: { readiness: { http: /a } }, variants: { "": { cpu: 2 } } } }'
            ),
            ("name.form", "ebbtide:services.a.variants:", "an empty name"),
        ),
    ],
)
def test_the_other_sections_are_checked_too(section: str, words: tuple[str, ...], tmp_path: Path) -> None:
    assert problem_of(shortest(more=section), tmp_path).tells(*words)


OF_OTHER_PARTITIONS = sorted(
    region.value for region in Region if re.match("cn-|us-(gov|iso[bf]?)-|eu-isoe-|eusc-", region.value)
)
COMMERCIAL = sorted({region.value for region in Region} - {*OF_OTHER_PARTITIONS})


def test_every_region_whose_arns_are_ours_passes(tmp_path: Path) -> None:
    assert [loaded(shortest(more=f"aws:region: {region}"), tmp_path).region for region in COMMERCIAL] == COMMERCIAL
    assert {"us-east-1", "mx-central-1", "ap-southeast-7"} < {*COMMERCIAL}


@pytest.mark.parametrize("region", OF_OTHER_PARTITIONS)
def test_a_region_of_another_partition_is_refused_before_a_role_is(region: str, tmp_path: Path) -> None:
    problem = problem_of(shortest(more=f"aws:region: {region}"), tmp_path)

    assert problem.startswith(":6: aws:region: wanted a region of AWS's commercial partition")
    assert problem.tells("region.other-partition")
    assert problem.tells("region.other-partition", "(for example eu-central-1)")
    assert region not in problem  # values under aws: are never shown


@pytest.mark.parametrize("region", OF_OTHER_PARTITIONS)
def test_a_cluster_that_is_there_already_may_be_in_any_partition(region: str, tmp_path: Path) -> None:
    assert loaded(onprem(more=f"aws:region: {region}"), tmp_path).region == region


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ("category: worker", ("choice.planned", "found 'worker'")),
        ("category: fixd", ("choice.unknown", "did you mean fixed?")),
        ("category: fixed, replicasOwner: hpa", ("replicas-owner.fixed",)),
        ("category: flexible, replicasOwner: controller", ("choice.planned", "found 'controller'")),
        ("category: flexible, budget: 1", ("key.unknown", "found the key 'budget'")),
        ("category: flexible, kind: daemonset", ("choice.unknown",)),
    ],
)
def test_a_workload_says_how_it_may_be_moved(workload: str, words: tuple[str, ...], tmp_path: Path) -> None:
    more = f'ebbtide:workloads: {{ api: {{ {workload}, image: "example.com/api:1", cpu: 1, memory: 2Gi }} }}'

    assert problem_of(shortest(more=more), tmp_path).tells(*words)


def test_structure_and_cross_checks_are_told_together(tmp_path: Path) -> None:
    text = shortest(
        train="stabilizationWindow: soon", hours="overnight: [{ pool: tran, at: '02:00', for: 2h, workers: 2 }]"
    )

    paths = [problem.path for problem in problems_of(text, tmp_path)]

    assert paths == [
        "ebbtide:businessHours.overnight[0].pool",
        "ebbtide:workers.train.stabilizationWindow",
    ]


def test_an_empty_config_lists_all_that_must_be_there() -> None:
    with pytest.raises(StackInvalid) as refused:
        parse_stack({}, stack="acme", file="a program")

    assert [problem.path for problem in refused.value.problems] == [
        "ebbtide:businessHours",
        "ebbtide:customer",
        "ebbtide:workers",
    ]


@pytest.mark.parametrize(
    ("train", "words"),
    [
        ("stabilizationWindow: 8785h", ("duration.too-long", "found '8785h'", "8784h")),
        ("stabilizationWindow: １２h", ("duration.form", "found '１２h'")),  # noqa: RUF001 - wide digits
        ("min: 1000001", ("number.too-large", "found 1000001", "1000000")),
        ("growthPerMinute: 10000000000000000000000", ("number.too-large", "found 1", "1000000")),
    ],
)
def test_numbers_that_nobody_means_are_refused(train: str, words: tuple[str, ...], tmp_path: Path) -> None:
    assert problem_of(shortest(train=train), tmp_path).tells(*words)


@pytest.mark.parametrize(
    ("size", "words"),
    [
        ("cpu: 1000001", ("cpu.too-large", "1000000")),
        ("cpu: 9999999999999999999", ("cpu.form",)),
        ("memory: 1025Ti", ("memory.too-large", "found '1025Ti'", "1024Ti")),
    ],
)
def test_sizes_that_no_machine_has_are_refused(size: str, words: tuple[str, ...], tmp_path: Path) -> None:
    key = size.split(":")[0]
    text = shortest().replace({"cpu": "cpu: 4", "memory": "memory: 16Gi"}[key], size)

    assert problem_of(text, tmp_path).tells(*words)


def test_an_image_is_named_in_plain_letters(tmp_path: Path) -> None:
    text = shortest().replace("example.com/train:1", "exаmple.com/train:1")  # noqa: RUF001 - a Cyrillic letter

    assert problem_of(text, tmp_path).tells("image.form")


@pytest.mark.parametrize("queue", ["--burst", "-"])
def test_a_queue_that_a_worker_would_take_for_an_option_is_refused(queue: str, tmp_path: Path) -> None:
    text = shortest().replace("queues: [train]", f"queues: ['{queue}']")

    problem = problem_of(text, tmp_path)

    assert problem.tells("queue.form", f"found '{queue}'", "a hyphen at its start", "(for example train)")


def test_a_queue_with_a_hyphen_elsewhere_is_taken(tmp_path: Path) -> None:
    settings = loaded(shortest().replace("queues: [train]", "queues: [train-, a--b]"), tmp_path)

    assert settings.workers["train"].source.queues == ("train-", "a--b")


def test_a_queue_that_nobody_could_read_is_refused(tmp_path: Path) -> None:
    text = shortest().replace("queues: [train]", 'queues: ["tr\\u200bain"]')

    assert problem_of(text, tmp_path).tells("queue.form", "found 'tr\\u200bain'")
