"""When workloads sleep, and the dollars of the nodes that go meanwhile."""

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from ebbtide.findings import Severity
from ebbtide.preview.cost.always import launched
from ebbtide.preview.cost.monthly import disk_usd_per_node_hour, group_costs
from ebbtide.preview.dangers import dangers_of
from ebbtide.preview.document import Danger
from ebbtide.preview.nights.changes import night_changes
from ebbtide.preview.nights.sleep import sleep_lines
from ebbtide.preview.sides import Side
from ebbtide.prices import Capacity
from ebbtide.settings.load import stack_of_text
from ebbtide.settings.model import StackSettings
from ebbtide.text.money import HOURS_PER_MONTH, about_dollars
from tests.builders.adoption import stack_with as adopted_stack
from tests.builders.settings import shortest
from tests.builders.workloads.sleeping import BUNDLED, sleeping_stack, sleeping_text

NOON, NIGHT = datetime(2026, 11, 30, 12, tzinfo=UTC), datetime(2026, 11, 28, 12, tzinfo=UTC)  # a Monday, a Saturday
AWAKE = "labels: {}"
HOURS = (7 * 24 - 5 * (10 + 25 / 60)) / (7 * 24) * HOURS_PER_MONTH  # without the hours from 07:35 to 18:00
NOTES_HOURS = (7 * 24 - 5 * (10 + 15 / 60)) / (7 * 24) * HOURS_PER_MONTH  # from 07:45


def test_each_workload_names_its_next_sleep_in_local_time() -> None:
    board, _, rank, _ = sleep_lines(sleeping_stack(), NOON)

    assert board == "board sleeps from Mon 30 Nov 18:00 to Tue 1 Dec 07:45 with 0 of 1 pods"
    assert rank.endswith("to Tue 1 Dec 07:35 with 0 of 1 pods")
    assert next(iter(sleep_lines(sleeping_stack(), NIGHT))) == "board sleeps now to Mon 30 Nov 07:45 with 0 of 1 pods"


def test_one_that_never_sleeps_has_the_longest_closed_interval_of_the_week() -> None:
    board, *_ = sleep_lines(sleeping_stack(board="sleep: { when: outsideBusinessHours, after: 72h }"), NOON)

    assert board.startswith("board never sleeps: the longest closed interval of a week is 62h, Fri 18:00 to Mon 08:00;")


def test_the_saving_is_the_node_that_no_pod_needs_at_night() -> None:
    """All pods but one fixed one fit one flexible node; it is needed until the last one sleeps, at 07:35 to 18:00."""
    settings = sleeping_stack()
    flexible = next(line for line in group_costs(settings, NOON.date()) if line.name == "flexible")
    assert flexible.rate is not None
    hourly = flexible.rate.above_usd + disk_usd_per_node_hour(settings, settings.node_groups["flexible"])
    hours = HOURS

    (*_, saving) = sleep_lines(settings, NOON)
    assert f"about {about_dollars(hours * hourly)}, {hours:,.0f} node-hours of flexible (m7i.4xlarge) a month" in saving


def test_an_upper_bound_is_rounded_up() -> None:
    """An r6a.2xlarge at 0.4536 dollars an hour, with its disk: 231 dollars."""
    small = (
        "ebbtide:nodeGroups: { fixed: { instanceTypes: [m7i.2xlarge] }, flexible: { instanceTypes: [r6a.2xlarge] } }"
    )
    stack = sleeping_stack(
        notes="sleep: { when: idle }", more=f"aws:region: us-east-1\n        {BUNDLED}\n        {small}"
    )

    assert "saves at most $240, 504 node-hours of flexible (r6a.2xlarge)" in list(sleep_lines(stack, NOON))[-1]


KARPENTER = "flexible: { instanceTypes: [m7i.2xlarge, m7i.4xlarge], max: 10, provisioner: karpenter }"
GROUPS = f"ebbtide:nodeGroups: {{ fixed: {{ instanceTypes: [m7i.2xlarge], min: 1, max: 3 }}, {KARPENTER} }}"


def saving_with(more: str, region: str = "us-east-1") -> str:
    return list(sleep_lines(sleeping_stack(more=f"aws:region: {region}\n        {more}"), NOON))[-1]


def test_karpenter_launches_the_small_type_for_pods_that_fit_it() -> None:
    """Three pods of 1 CPU: an m7i.2xlarge at 0.4032 dollars an hour, and its disk of 50 GiB at 0.08 a month and GiB."""
    usd = HOURS * (0.4032 + 0.08 * 50 / HOURS_PER_MONTH)

    assert f"saves about {about_dollars(usd)}, {HOURS:,.0f} node-hours of flexible (m7i.2xlarge)" in saving_with(GROUPS)


def test_karpenter_takes_a_smaller_node_for_the_pods_that_stay() -> None:
    """Ten pods of 1 CPU that sleep and one that does not: one node of 16 CPUs by day and one of 8 by night."""
    text = sleeping_text(more=f"aws:region: us-east-1\n        {GROUPS}", rank=AWAKE).replace(
        "replicas: 2", "replicas: 10"
    )
    saving = list(sleep_lines(stack_of_text(text, stack="acme", file="Pulumi.acme.yaml"), NOON))[-1]
    hours = f"{NOTES_HOURS:,.0f} node-hours of flexible"
    usd = NOTES_HOURS * (0.8064 - 0.4032)

    assert saving.startswith(
        f"sleep saves about {about_dollars(usd)}, {hours} (m7i.4xlarge) and takes {hours} (m7i.2xlarge) instead"
    )


def test_a_managed_group_has_its_first_type_on_demand() -> None:
    managed = GROUPS.replace(KARPENTER, "flexible: { instanceTypes: [m7i.2xlarge, m6a.2xlarge], max: 10 }")

    assert "node-hours of flexible (m7i.2xlarge)" in saving_with(managed)
    assert "node-hours of flexible (m6a.2xlarge)" in saving_with(
        managed.replace("m7i.2xlarge, m6a", "m6a.2xlarge, m7i")
    )


@pytest.mark.parametrize(
    "types",
    ["[m7i.4xlarge, m6a.4xlarge, m6i.4xlarge, m5.4xlarge]", "[m6a.4xlarge, m7i.4xlarge, m6i.4xlarge, m5.4xlarge]"],
)
def test_a_saving_on_a_managed_spot_group_has_the_cheapest_type(types: str) -> None:
    """Which one the group launches is not known, and a saving must not be too high."""
    spot = f"ebbtide:nodeGroups: {{ spot: {{ kind: spot, instanceTypes: {types}, max: 8 }} }}"
    group = sleeping_stack(more=f"aws:region: us-east-1\n        {spot}").node_groups["spot"]
    prices = {kind: 0.3 if kind.name == "m6a.4xlarge" else 0.4 for kind in group.types}

    assert launched(group, prices, Capacity(cpu=1, memory=1, gpu=0, pods=1)).name == "m6a.4xlarge"


def test_without_a_price_the_smallest_type_that_holds_the_pods_is_named_and_no_amount() -> None:
    unpriced = saving_with(GROUPS, region="xx-south-9")

    assert unpriced.startswith(f"sleep saves {HOURS:,.0f} node-hours of flexible (m7i.2xlarge) a month")
    assert "$" not in unpriced


def test_what_sleeps_when_idle_saves_that_at_most() -> None:
    idle = sleeping_stack(notes="sleep: { when: idle }", more=BUNDLED)
    (_, notes, _, saving), (*_, by_the_clock) = sleep_lines(idle, NOON), sleep_lines(sleeping_stack(), NOON)

    assert notes == "notes, once idle for 2h, sleeps from Mon 30 Nov 18:00 to Tue 1 Dec 07:45 with 0 of 2 pods"
    assert saving == by_the_clock.replace("saves about", "saves at most")


@pytest.mark.parametrize("keys", [{"notes": AWAKE}, {"rank": AWAKE}, {"notes": AWAKE, "rank": AWAKE}])
def test_where_other_pods_or_the_minimum_keep_the_nodes_it_saves_nothing(keys: dict[str, str]) -> None:
    (*_, saving) = sleep_lines(sleeping_stack(**keys), NOON)

    assert "saves no node" in saving


def test_a_stack_without_sleep_has_no_line() -> None:
    assert [*sleep_lines(sleeping_stack(board=AWAKE, notes=AWAKE, rank=AWAKE), NOON)] == []


def test_a_change_of_sleep_is_a_change_of_the_nights() -> None:
    def changes(before: StackSettings, after: StackSettings) -> list[str]:
        return [*night_changes(before, after, NOON, 14)]

    by_clock, never = "{ when: outsideBusinessHours }", sleeping_stack(notes="sleep: { when: never, after: 1h }")
    later = by_clock.replace(" }", ', after: 90m, overnight: [{ at: "02:00", for: 2h }] }')

    assert changes(never, sleeping_stack()) == [f"sleep of notes: {by_clock} instead of none"]
    assert changes(sleeping_stack(), never) == [f"sleep of notes: none instead of {by_clock}"]
    assert changes(sleeping_stack(), sleeping_stack(rank=f"sleep: {later}")) == [
        f"sleep of rank: {later} instead of {by_clock}"
    ]
    assert changes(never, sleeping_stack(notes=AWAKE)) == []


def dangers(before: StackSettings, after: StackSettings) -> list[Danger]:
    old, new = (Side(stack="acme", settings=settings, resources=()) for settings in (before, after))
    return [danger for danger in dangers_of(old, new, ()) if danger.code == "sleep-ended"]


NEVER = "sleep: { when: never }"


@pytest.mark.parametrize(
    "keys", [{"notes": AWAKE}, {"notes": "replicasOwner: hpa"}, {"rank": AWAKE}, {"rank": "scale: { min: 1, max: 3 }"}]
)
def test_a_removal_without_the_first_step_has_its_commands_since_nothing_would_wake_it(keys: dict[str, str]) -> None:
    scaled = {name: text.replace("max: 3", "max: 3, metrics: { cpu: 70% }") for name, text in keys.items()}
    (name,) = keys
    (danger,) = dangers(sleeping_stack(), sleeping_stack(**scaled))

    assert (danger.severity, danger.subjects) == (Severity.WARNING, (name,))
    assert "stays at 0 of" in danger.impact
    steps = (
        "write when: never in its sleep",
        "and update",
        "ebbtide status",
        f"ebbtide release {name}",
        "remove its key",
    )
    assert [*steps] == sorted(steps, key=danger.remedy.index)


def test_each_step_of_a_removal_names_the_next_one() -> None:
    (first,) = dangers(sleeping_stack(), sleeping_stack(notes=NEVER))
    (second,) = dangers(sleeping_stack(notes=NEVER), sleeping_stack(notes=AWAKE))

    assert (first.severity, second.severity) == (Severity.NOTE, Severity.NOTE)
    assert first.remedy.index("ebbtide release notes") < first.remedy.index("remove its key")
    assert "ebbtide release notes before this update" in second.remedy


@pytest.mark.parametrize("notes", [AWAKE, NEVER])
def test_a_sleep_ends_with_the_same_number_of_pods_since_another_one_conflicts(notes: str) -> None:
    text = sleeping_text(notes=notes).replace("replicas: 2", "replicas: 3")
    (danger,) = dangers(sleeping_stack(), stack_of_text(text, stack="acme", file="Pulumi.acme.yaml"))

    assert danger.remedy.startswith("change its replicas after that; w")


def test_a_sleep_that_only_changes_or_whose_workload_goes_ends_without_a_word() -> None:
    later = "sleep: { when: outsideBusinessHours, after: 1h }"
    assert dangers(sleeping_stack(), sleeping_stack(notes=later)) == []
    assert dangers(sleeping_stack(), stack_of_text(shortest(), stack="acme", file="Pulumi.acme.yaml")) == []
    assert dangers(sleeping_stack(notes=AWAKE), sleeping_stack()) == []
    assert dangers(sleeping_stack(notes=NEVER), sleeping_stack(notes=NEVER)) == []
    assert dangers(sleeping_stack(notes=NEVER), sleeping_stack()) == []


# --- charts -----------------------------------------------------------------------------------------------------------

CHART = "sleep: { when: outsideBusinessHours, scale: { kind: Deployment, name: hub } }"


def chart_stack(sleep: str = CHART, *, name: str = "notebooks") -> StackSettings:
    size = "namespace: jupyter, selector: { app: hub }, category: flexible, replicas: 2, cpu: 3, memory: 8Gi"
    rules = f"  {name}: {{ {size}{sleep and f', {sleep}'} }}" if name else "  {}"
    text = shortest(more=f'ebbtide:cluster: {{ version: "1.36" }}\nebbtide:adopted:\n{rules}')
    return stack_of_text(text, stack="acme", file="Pulumi.acme.yaml")


def test_a_chart_that_sleeps_is_in_the_coming_nights_and_their_saving() -> None:
    line, saving = sleep_lines(chart_stack(), NOON)

    assert line == "notebooks sleeps from Mon 30 Nov 18:00 to Tue 1 Dec 07:45 with 0 of 2 pods"
    assert "node-hours of flexible (m7i.4xlarge) a month" in saving
    assert [*sleep_lines(chart_stack(""), NOON)] == []
    changes = [*night_changes(chart_stack(""), chart_stack(), NOON, 14)]
    assert [line.partition(":")[0] for line in changes] == ["sleep of notebooks"]


def test_the_two_steps_of_a_charts_removal_name_the_next_one() -> None:
    never = chart_stack(CHART.replace("outsideBusinessHours", "never"))
    (first,) = dangers(chart_stack(), never)
    (second,) = dangers(never, chart_stack(""))

    assert (first.severity, second.severity) == (Severity.NOTE, Severity.NOTE)
    assert "ebbtide release notebooks" in first.remedy
    assert "conflict" not in first.impact, "no update contains the object of a chart"
    assert "ebbtide release notebooks before this update" in second.remedy
    assert dangers(never, never) == dangers(never, chart_stack()) == []


def test_another_name_of_a_rule_ends_no_sleep() -> None:
    assert dangers(chart_stack(), chart_stack(name="hub")) == []


@pytest.mark.parametrize(
    "after", [chart_stack(""), chart_stack(name=""), chart_stack(CHART.replace("name: hub", "name: proxy"))]
)
def test_a_chart_that_loses_its_sleep_its_rule_or_its_object_without_the_first_step_may_stay_asleep(
    after: StackSettings,
) -> None:
    (danger,) = dangers(chart_stack(), after)

    assert (danger.severity, danger.subjects) == (Severity.WARNING, ("notebooks",))
    assert "stays at 0 of 2 pods" in danger.impact


@pytest.mark.parametrize(
    ("shapes", "line"),
    [
        ({"flexible": {"cpu": 8, "memory": "32Gi", "max": 4}}, "sleep: `ebbtide simulate acme` shows which nodes go"),
        ({}, "sleep: the cost of an existing cluster's nodes is not known here"),
    ],
)
def test_on_an_existing_cluster_the_replay_of_nights_is_named_if_its_nodes_are_described(
    shapes: Mapping[str, object], line: str
) -> None:
    cluster = {"kind": "existing", "context": "a", "nodeSelectors": {"flexible": {"a": "b"}}, "nodeShapes": shapes}
    asleep = {"when": "outsideBusinessHours", "scale": {"kind": "Deployment", "name": "web"}}
    stack = adopted_stack(cluster, web={"selector": {"app": "web"}, "sleep": asleep})

    assert list(sleep_lines(stack, NOON))[-1].startswith(line)
