"""Advice on a service's metric, target, min and max: cheaper within the SLO, stable once followed, or refused."""

import json

import pytest

from ebbtide.lab.advice.services import targets
from ebbtide.lab.advice.services.choice import Role, ScaleVerdict
from ebbtide.lab.advice.services.place import StackText, VariantScale, changes_to, place_of
from ebbtide.lab.advice.services.targets import TargetAdvice, as_json, target_advice
from ebbtide.lab.advice.services.targets_text import as_text
from ebbtide.lab.simulator.services.replay import ServiceOptions
from ebbtide.lab.simulator.services.run import TraceSpan
from ebbtide.lab.simulator.setup import ReplayError
from ebbtide.settings.load import stack_of_text
from ebbtide.text.durations import DAY_S
from tests.builders.terminal import shown_text
from tests.builders.workloads.played import a_request_trace
from tests.builders.workloads.services import ON_SPOT
from tests.builders.workloads.tuned import SMALL, a_stack, advice, an_afternoon

pytestmark = pytest.mark.whole

SMALL_OWN = (SMALL, "cpu: 3, memory: 12Gi, scale: { metrics: { inFlight: 3 }, min: 6, max: 12 } } # watched\n")
RIGHT = "scale: { metrics: { inFlight: 3 }, min: 2, max: 12 }"


def text_of(advice: TargetAdvice) -> str:
    return shown_text(as_text(advice, ""))


def refusal(stack: StackText, name: str = "embedder-small") -> str:
    with pytest.raises(ReplayError) as refused:
        target_advice(stack, name, an_afternoon(), ServiceOptions())
    return str(refused.value)


def test_unneeded_pods_are_advised_away_and_the_slo_is_kept() -> None:
    found = advice()
    now, advised = found.rows[0], next(row for row in found.rows if row.role is Role.ADVISED)

    assert found.verdict is ScaleVerdict.CHANGE
    assert (now.scale.min, advised.scale.min) == (6, 2)
    assert advised.keeps
    assert advised.outcome.result.pod_hours < 0.5 * now.outcome.result.pod_hours
    assert advised.outcome.result.sent == now.outcome.result.sent > 10_000


def test_advice_that_was_followed_is_followed_by_none() -> None:
    stack = a_stack()
    changed = StackText(text=stack.changed(advice().changes), file=stack.file, stack=stack.stack, reader=stack.reader)

    again = target_advice(changed, "embedder-small", an_afternoon(), ServiceOptions())

    assert (again.verdict, again.changes) == (ScaleVerdict.RIGHT, ())
    assert "Nothing to do" in text_of(again)


def test_a_service_with_the_right_settings_is_not_changed() -> None:
    found = advice(RIGHT)

    assert (found.verdict, found.changes) == (ScaleVerdict.RIGHT, ())
    assert Role.ADVISED not in {row.role for row in found.rows}


def test_one_pod_is_never_advised_where_there_are_several() -> None:
    assert min(row.scale.min for row in advice().rows) == 2


def test_where_the_scale_is_of_all_variants_one_gets_its_own_and_the_others_keep_theirs() -> None:
    stack = a_stack()

    changed = stack_of_text(stack.changed(advice().changes), stack="acme", file=stack.file)

    variants = changed.services["embedder"].variants
    assert {name: it.scale.min for name, it in variants.items()} == {"small": 2, "large": 6}
    assert {it.scale.max for it in variants.values()} == {12}


def test_a_variants_own_scale_is_changed_by_key_and_comments_stay() -> None:
    stack = a_stack(SMALL_OWN)
    place = place_of(stack, "embedder-small")
    assert place is not None

    changes = changes_to(place, VariantScale(metrics={"inFlight": 2.5}, min=2, max=12), "cheaper")

    assert [(change.at[-1], change.before, change.after) for change in changes] == [("inFlight", 3, 2.5), ("min", 6, 2)]
    before, after = stack.text, stack.changed(changes)
    assert after == before.replace(
        "{ inFlight: 3 }, min: 6, max: 12 } } # watched", "{ inFlight: 2.5 }, min: 2, max: 12 } } # watched"
    )


def test_other_metrics_take_the_place_of_all() -> None:
    stack = a_stack(SMALL_OWN)
    place = place_of(stack, "embedder-small")
    assert place is not None

    (change,) = changes_to(place, VariantScale(metrics={"cpu": "70%"}, min=6, max=12), "cheaper")

    assert (change.at[-1], change.before, change.after) == ("metrics", {"inFlight": 3}, {"cpu": "70%"})
    assert stack.with_changes([change]).services["embedder"].variants["small"].scale.metrics.keys == ["cpu"]


def test_the_concurrency_of_a_pod_stays_as_assumed_unless_it_is_given() -> None:
    tried = [row.scale.metrics["inFlight"] for row in advice().rows]

    assert all(2 < float(str(target)) <= 3 for target in tried)
    known = advice(RIGHT, 6)
    assert "6 requests at a time (--at-once)" in " ".join(known.assumptions)
    assert any(float(str(row.scale.metrics.get("inFlight", 0))) > 3 for row in known.rows)


def test_where_nothing_keeps_the_slo_the_nearest_is_shown_and_nothing_changes() -> None:
    crowded = (("longestRequest: 60s", "longestRequest: 60s\n    maxInFlight: 1"),)

    found = advice(RIGHT, None, *crowded)

    assert (found.verdict, found.changes) == (ScaleVerdict.NONE_KEEPS, ())
    assert found.reason.startswith("Nothing is advised: no tried setting keeps 99.43%")
    assert not any(row.keeps for row in found.rows)


@pytest.mark.parametrize(("errors", "verdict"), [("0.1%", ScaleVerdict.RIGHT), ("0.001%", ScaleVerdict.NONE_KEEPS)])
def test_where_each_setting_loses_some_the_errors_of_the_slo_are_allowed(errors: str, verdict: ScaleVerdict) -> None:
    """Three of ten thousand requests alone take longer than the limit."""
    found = advice(RIGHT, None, ("longestRequest: 60s", "longestRequest: 9s"), ("errors: 0.1%", f"errors: {errors}"))

    assert found.verdict is verdict
    assert all(row.outcome.result.lost for row in found.rows)
    assert found.goal.lost == pytest.approx(float(errors.removesuffix("%")) / 100)
    assert "slo.errors allows this share" in text_of(found)


def test_min_stays_below_what_the_calendar_has_pods_for() -> None:
    found = advice("scale: { metrics: { inFlight: 3 }, min: 2, max: 12, floor: calendar, open: 3 }", None)

    assert found.tried > 5
    assert {row.scale.min for row in found.rows} == {2}


def test_a_short_history_states_that_it_was_judged_by_itself() -> None:
    assert not advice().held_out
    assert "too short to hold a week back" in text_of(advice())


@pytest.mark.parametrize(
    ("days", "tuned", "shown"),
    [(1, (0, 1), (0, 1)), (8, (0, 8), (0, 8)), (9, (0, 2), (2, 9)), (14, (0, 7), (7, 14)), (20, (6, 13), (13, 20))],
)
def test_the_last_week_is_held_back_where_days_are_left_to_tune_on(
    days: int, tuned: tuple[int, int], shown: tuple[int, int]
) -> None:
    trace = a_request_trace([1.0] * days, window_s=DAY_S)

    assert targets._spans(trace) == tuple(TraceSpan(begin * DAY_S, end * DAY_S) for begin, end in (tuned, shown))


@pytest.mark.parametrize(
    ("stack", "name", "told"),
    [
        (a_stack(), "nobody", "found 'nobody' (they are embedder-small, embedder-large, ranker)"),
        (a_stack(), "ranker", "wanted requestTakes"),
        (a_stack(*ON_SPOT), "embedder-small", "wanted a service without a variant on spot nodes"),
        (
            a_stack(scale="category: fixed\n    scale: { min: 2, max: 2 }"),
            "embedder-small",
            "wanted a flexible service, found category: fixed",
        ),
        (
            a_stack(scale="scale: { metrics: { inFlight: 3, query: { promql: up, target: 1 } }, min: 0, max: 12 }"),
            "embedder-small",
            "wanted min of at least 1, found 0",
        ),
    ],
)
def test_what_cannot_be_advised_on_is_one_line(stack: StackText, name: str, told: str) -> None:
    line = refusal(stack, name)

    assert told in line
    assert "\n" not in line


def test_the_figures_are_plain_json() -> None:
    document = json.loads(json.dumps(as_json(advice())))

    now, advised = document["settings"][0], next(it for it in document["settings"] if it["role"] == "advised")
    assert (document["verdict"], now["role"]) == ("change", "now")
    assert {"month_usd", "month_pod_hours", "beyond_slo", "lost", "p95_s", "p99_s"} <= advised.keys()
    assert advised["month_usd"] == pytest.approx(advised["month_pod_hours"] * now["usd"] / now["pod_hours"])
    assert document["hours"]["shown"]["held_out"] is False
