"""The key `sleep` of workloads and services: values and contradictions."""

import re
from datetime import date, timedelta
from pathlib import Path

import pytest

from ebbtide.provisioning_labels import ReplicasOwner
from ebbtide.settings.capacity.pods import needs_external_objects
from ebbtide.settings.capacity.process_documents import has_workloads, sleep_policies, sleepers_of, workloads_config
from ebbtide.settings.checks.cautions import warnings_of
from ebbtide.settings.load import stack_of_text
from ebbtide.settings.summary import summary
from ebbtide.vocabulary.documents import dump, load
from ebbtide.vocabulary.workloads import WorkloadsConfig
from tests.builders.settings import loaded, problem_of, shortest
from tests.builders.workloads.sleeping import BUNDLED, sleeping_stack, sleeping_text

AWAKE = "labels: {}"


def test_a_sleep_has_words_that_ray_clusters_have() -> None:
    night = "overnight: [{ at: '02:00', for: 2h }]"
    keys = f"when: outsideBusinessHours, after: 1h, wake: [businessHours], replicas: 1, {night}"
    _, notes, _ = sleepers_of(sleeping_stack(notes=f"sleep: {{ {keys} }}"))

    assert (notes.asleep, notes.replicas, notes.manual, notes.after) == (1, 2, False, timedelta(hours=1))
    assert [(night.at, night.lasting) for night in notes.overnight] == [(120, timedelta(hours=2))]
    assert "sleeps   board: 0 of 1 outside business hours" in summary(sleeping_stack())


def test_what_is_idle_is_measured_for_two_hours_and_a_hub_is_asked_on_its_first_port() -> None:
    stack = sleeping_stack(
        notes="sleep: { when: idle, hub: { secret: hub, key: sleepToken } }",
        rank="sleep: { when: idle, after: 30m }",
        more=BUNDLED,
    )
    board, notes, rank = sleepers_of(stack)

    assert [(it.idle_after, it.after) for it in (board, notes, rank)] == [
        (None, timedelta()),
        (timedelta(hours=2), timedelta()),
        (timedelta(minutes=30), timedelta()),
    ]
    assert (notes.hub, notes.hub_token_file) == ("http://notes.ebbtide.svc:8080", "/etc/ebbtide-hubs/notes/sleepToken")
    assert (rank.hub, rank.hub_token_file) == ("", None)
    assert "sleeps   notes: 0 of 2 outside business hours, when idle" in summary(stack)
    assert not needs_external_objects(stack.workloads["notes"], ()), "the controller reads the token, not the pod"


@pytest.mark.parametrize("ports", ["hub: 8081, web: 8000", "web: 8000, hub: 8081"])
def test_a_hub_is_asked_on_the_same_port_in_any_order_since_pulumi_sorts_the_file(ports: str) -> None:
    text = sleeping_text(notes="sleep: { when: idle, hub: { secret: hub, key: token } }", more=BUNDLED)
    text = text.replace(
        "ports: { http: 8080 }, probes: { readiness: { http: /, port: http } }", f"ports: {{ {ports} }}", 1
    )
    _, notes, _ = sleepers_of(stack_of_text(text, stack="acme", file="Pulumi.acme.yaml"))

    assert notes.hub == "http://notes.ebbtide.svc:8081"


OWN = "ebbtide:serving: { prometheus: http://prometheus.monitoring.svc:9090 }"


@pytest.mark.parametrize(
    ("more", "url"),
    [
        (BUNDLED, "http://ebbtide-prometheus.ebbtide.svc:9090"),
        (f"{BUNDLED}\n        {OWN}", "http://ebbtide-prometheus.ebbtide.svc:9090"),
        (OWN, "http://prometheus.monitoring.svc:9090"),
        (
            "ebbtide:monitoring: { prometheus: existing, namespace: monitoring }",
            "http://prometheus-operated.monitoring.svc:9090",
        ),
    ],
)
def test_idleness_is_asked_of_the_prometheus_of_the_stack(more: str, url: str) -> None:
    stack = sleeping_stack(notes="sleep: { when: idle }", more=more)

    assert workloads_config(stack, str).prometheus == url
    assert workloads_config(sleeping_stack(more=more), str).prometheus == "", "nobody asks it"


def test_a_prometheus_with_credentials_shows_the_controller_nothing(tmp_path: Path) -> None:
    access = OWN.replace(" }", ", prometheusAccess: { headers: { X-Scope-OrgID: acme } } }")
    text = sleeping_text(notes="sleep: { when: idle }", more=access)

    assert problem_of(text, tmp_path).tells("sleep.no-prometheus", "notes.sleep.when:")


def test_the_token_of_a_hub_must_be_a_key_of_its_secret(tmp_path: Path) -> None:
    hub = "sleep: { when: idle, hub: { secret: ebbtide-redis, key: token } }"

    assert problem_of(sleeping_text(notes=hub, more=BUNDLED), tmp_path).tells(
        "secret.key-unknown", "notes.sleep.hub.key:"
    )


def test_it_wakes_early_enough_for_a_node_that_starts_slowly() -> None:
    guards = "ebbtide:controller: { closingGuard: 5m, nodeStartup: 12m }"
    board, _, rank = sleepers_of(sleeping_stack(more=guards))

    assert (board.lead, rank.lead) == (timedelta(minutes=12), timedelta(minutes=32))


def test_a_service_that_sleeps_is_not_said_to_keep_its_node() -> None:
    def codes(**keys: str) -> set[str]:
        return {caution.code for caution in warnings_of(sleeping_stack(**keys))}

    assert "scale.lone-pod" not in codes()
    assert "scale.lone-pod" in codes(rank=AWAKE)


def test_a_hub_that_starts_pods_is_told_how_it_may_sleep(tmp_path: Path) -> None:
    when_idle = "sleep: { when: idle, hub: { secret: hub, key: token } }"
    message = problem_of(sleeping_text(board=when_idle, more=BUNDLED), tmp_path)

    assert message.tells("sleep.fixed-idle", "outsideBusinessHours", "`after`", "no hub")


def test_nothing_sleeps_unless_the_file_says_so() -> None:
    never = "sleep: { when: never, after: 1h, replicas: 9, wake: [manual], hub: { secret: hub, key: token } }"

    assert [*sleepers_of(sleeping_stack(board=AWAKE, notes=never, rank=never))] == []
    assert [*sleep_policies(sleeping_stack(board=AWAKE, notes=AWAKE, rank=AWAKE))] == []


def test_what_sleeps_no_more_stays_in_the_document_so_that_it_is_woken() -> None:
    never = "sleep: { when: never, after: 1h, replicas: 9, wake: [manual], hub: { secret: hub, key: token } }"
    stack = sleeping_stack(board=AWAKE, notes=f"{never}, replicasOwner: hpa", rank=never)
    notes, rank = load(WorkloadsConfig, dump(workloads_config(stack, str))).sleepers

    assert [(it.name, it.never, it.replicas, it.asleep, it.hub, it.hub_token_file) for it in (notes, rank)] == [
        ("notes", True, 2, 0, "", None),
        ("rank", True, 1, 0, "", None),
    ]
    assert "sleeps   notes: never; once it is awake: ebbtide release notes, then remove its key sleep" in summary(stack)
    assert not any("sleeps   board" in line for line in summary(stack))


def test_an_entry_that_sleeps_no_more_keeps_the_declared_owner_of_its_number() -> None:
    stack = sleeping_stack(notes="sleep: { when: never }, replicasOwner: hpa", board="sleep: { when: never }")

    assert stack.workloads["notes"].replicas_writer is ReplicasOwner.HPA
    assert stack.workloads["board"].replicas_writer is ReplicasOwner.PULUMI
    assert has_workloads(sleeping_stack(board="sleep: { when: never }", notes=AWAKE, rank=AWAKE))
    assert not has_workloads(sleeping_stack(board=AWAKE, notes=AWAKE, rank=AWAKE))


@pytest.mark.parametrize(
    ("keys", "code", "at"),
    [
        ({"notes": "sleep: { after: 1h }"}, "key.missing", "notes.sleep.when:"),
        ({"notes": "sleep: { when: idle }"}, "sleep.no-prometheus", "notes.sleep.when:"),
        ({"rank": "sleep: { when: idle }"}, "sleep.no-prometheus", "sleep.when:"),
        ({"board": "sleep: { when: idle }"}, "sleep.fixed-idle", "board.sleep.when:"),
        (
            {"notes": "sleep: { when: outsideBusinessHours, hub: { secret: hub, key: token } }"},
            "sleep.hub-alone",
            "notes.sleep.hub:",
        ),
        ({"notes": "sleep: { when: idle, hub: { secret: hub } }"}, "key.missing", "notes.sleep.hub"),
        (
            {"notes": "sleep: { when: outsideBusinessHours, wake: [businessHours, queue] }"},
            "choice.planned",
            "wake[1]:",
        ),
        ({"notes": "sleep: { when: outsideBusinessHours, wake: [manual] }"}, "sleep.not-woken", "sleep.wake:"),
        ({"notes": "sleep: { when: outsideBusinessHours, wake: manual }"}, "type.list", "sleep.wake:"),
        ({"notes": "sleep: { when: outsideBusinessHours, replicas: 2 }"}, "sleep.no-fewer", "sleep.replicas:"),
        ({"rank": "sleep: { when: outsideBusinessHours, replicas: 1 }"}, "sleep.no-fewer", "sleep.replicas:"),
        (
            {"notes": "replicasOwner: hpa, sleep: { when: outsideBusinessHours }"},
            "sleep.second-owner",
            "notes.sleep:",
        ),
        ({"notes": "replicasOwner: controller"}, "choice.planned", "notes.replicasOwner:"),
        (
            {"rank": "scale: { min: 1, max: 3, metrics: { cpu: 70% } }, sleep: { when: outsideBusinessHours }"},
            "sleep.second-owner",
            "rank.sleep:",
        ),
    ],
)
def test_a_sleep_that_cannot_be_kept_is_refused(keys: dict[str, str], code: str, at: str, tmp_path: Path) -> None:
    assert problem_of(sleeping_text(**keys), tmp_path).tells(code, at)


def test_a_pool_does_not_sleep(tmp_path: Path) -> None:
    text = shortest(train="sleep: { when: outsideBusinessHours }")

    assert problem_of(text, tmp_path).tells("key.elsewhere", "train.sleep", "min: 0")


def test_a_workload_that_starts_pods_sleeps_in_its_own_namespace(tmp_path: Path) -> None:
    rules = 'kubernetes: { rules: [{ groups: [""], resources: [pods], verbs: [get, list, watch] }] }'
    hub = (
        f'ebbtide:workloads: {{ hub: {{ image: "example.com/hub:1", category: fixed, cpu: 1, memory: 1Gi, {rules}, '
        "sleep: { when: outsideBusinessHours } } }"
    )
    (policy,) = sleepers_of(loaded(shortest(more=hub), tmp_path))

    assert policy.namespace != "ebbtide"
    assert "hub" in policy.namespace


MONDAY = date(2026, 1, 5)
LONGEST = "the longest closed interval of a week is 61h, Fri 19:00 to Mon 08:00"


def cautions(sleep: str, *, holidays: str = "{}") -> list[str]:
    text = sleeping_text(board=AWAKE, notes=f"sleep: {{ {sleep} }}", rank=AWAKE, more=BUNDLED)
    week = 'week: { mon-fri: "08:00-19:00" }'
    hours = f"ebbtide:businessHours: {{ timezone: UTC, {week}, holidays: {holidays} }}"
    text = re.sub(r"ebbtide:businessHours:.*", hours, text)
    stack = stack_of_text(text, stack="acme", file="Pulumi.acme.yaml")
    return [str(caution) for caution in warnings_of(stack, MONDAY) if caution.code == "sleep.never"]


def test_a_delay_that_outlasts_every_closed_interval_of_the_week_is_a_warning_with_the_longest() -> None:
    (caution,) = cautions("when: outsideBusinessHours, after: 72h")

    assert caution == (
        f"workloads.notes.sleep: it never sleeps in an ordinary week: {LONGEST}; it stays awake for 72h after the "
        "closing, and wakes 15m before the opening"
    )


@pytest.mark.parametrize(("after", "sleeps"), [("60h", True), ("3644m", True), ("3645m", False), ("61h", False)])
def test_the_time_before_the_opening_counts_as_awake(after: str, sleeps: bool) -> None:
    assert (not cautions(f"when: outsideBusinessHours, after: {after}")) is sleeps


def test_a_longer_holiday_is_named_since_it_sleeps_then() -> None:
    closed = "{ closed: ['2026-04-03', '2026-04-06'] }"

    (caution,) = cautions("when: outsideBusinessHours, after: 72h", holidays=closed)

    assert caution.endswith("; it sleeps at holidays only, next on 2026-04-05")


def test_nights_that_cover_every_closed_hour_are_a_warning_too_and_idle_ones_are_none() -> None:
    night = "overnight: [{ at: '19:00', for: 13h }, { at: '07:00', for: 12h }]"

    (caution,) = cautions(f"when: outsideBusinessHours, {night}")
    assert "it stays awake for its times overnight, and wakes" in caution
    assert not cautions("when: idle, after: 72h"), "hours of use before the closing count"
    assert not cautions("when: never, after: 72h")


def test_the_summary_says_how_much_later_it_sleeps() -> None:
    stack = sleeping_stack(board="sleep: { when: outsideBusinessHours, after: 72h }")

    assert "sleeps   board: 0 of 1 outside business hours, 72h later" in summary(stack)
