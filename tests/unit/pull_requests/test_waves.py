"""The plan of a rollout: who may be changed now, who waits, and that waiting stacks hold later waves."""

import json
from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ebbtide.cli.__main__ import app
from ebbtide.pull_requests.deployments import Deployed, DeploymentsUnknown, Failure, read_deployments
from ebbtide.pull_requests.waves import MOST_STACKS, Remaining, WavePlan, WaveTooLarge, plan_waves, reasons
from ebbtide.settings.sections.rollout import Wave
from ebbtide.vocabulary.windows import BusinessHours, DisruptionWindow, WeeklyInterval

MONDAY_NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
MONDAY_NIGHT = datetime(2026, 11, 30, 20, tzinfo=UTC)
OPENING = datetime(2026, 11, 30, 8, tzinfo=UTC)
WORKING_WEEK = tuple(WeeklyInterval(day, 8 * 60, 18 * 60) for day in range(5))
ALWAYS = tuple(WeeklyInterval(day, 0, 24 * 60) for day in range(7))


def remaining(
    stack: str = "acme",
    wave: Wave = Wave.REST,
    *,
    week: tuple[WeeklyInterval, ...] = WORKING_WEEK,
    failed_at: datetime | None = None,
) -> Remaining:
    window = DisruptionWindow(hours=BusinessHours(timezone="UTC", week=week), closing_guard=timedelta(minutes=15))
    return Remaining(stack=stack, wave=wave, window=window, failed_at=failed_at)


def planned(
    *stacks: Remaining, now: datetime = MONDAY_NIGHT, during_business_hours: bool = False
) -> dict[Wave, WavePlan]:
    return plan_waves(stacks, now, during_business_hours=during_business_hours)


@pytest.mark.parametrize("now", [MONDAY_NOON, OPENING - timedelta(minutes=10)])
def test_a_stack_is_deferred_in_its_business_hours_and_shortly_before_them(now: datetime) -> None:
    plan = planned(remaining(), now=now)[Wave.REST]

    assert (plan.now, plan.deferred) == ((), {"acme": datetime(2026, 11, 30, 18, tzinfo=UTC)})


def test_a_stack_that_never_closes_is_deferred_without_an_end() -> None:
    plans = planned(remaining(week=ALWAYS))

    assert plans[Wave.REST].deferred == {"acme": None}
    assert list(reasons(plans)) == ["rest: acme is deferred: business hours without an end"]


def test_business_hours_can_be_ignored() -> None:
    assert planned(remaining(), now=MONDAY_NOON, during_business_hours=True)[Wave.REST].now == ("acme",)


@pytest.mark.parametrize(("holding", "later"), list(combinations(Wave, 2)))
@pytest.mark.parametrize(("week", "failed_at"), [(ALWAYS, None), (WORKING_WEEK, MONDAY_NIGHT - timedelta(hours=1))])
def test_a_stack_that_waits_holds_every_later_wave_and_not_its_own(
    holding: Wave, later: Wave, week: tuple[WeeklyInterval, ...], failed_at: datetime | None
) -> None:
    waiting = remaining("bad", holding, week=week, failed_at=failed_at)

    plans = planned(waiting, remaining("same", holding), remaining("next", later))

    assert (plans[holding].now, plans[later].now, plans[later].held) == (("same",), (), ("next",))


def test_a_stack_that_waits_holds_no_earlier_wave() -> None:
    plans = planned(remaining("bad", Wave.EARLY, week=ALWAYS), remaining("first", Wave.CANARY))

    assert plans[Wave.CANARY].now == ("first",)


def test_a_job_that_refused_to_change_a_stack_in_business_hours_has_not_failed() -> None:
    plan = planned(remaining(failed_at=MONDAY_NOON))[Wave.REST]

    assert (plan.now, plan.failed) == (("acme",), ())


@pytest.mark.parametrize("wave", Wave)
def test_a_wave_has_no_more_stacks_than_githubs_matrix(wave: Wave) -> None:
    stacks = [remaining(f"s{number}", wave) for number in range(MOST_STACKS + 1)]

    assert len(planned(*stacks[1:])[wave].now) == MOST_STACKS
    with pytest.raises(WaveTooLarge, match=f"wave {wave}: expected at most 256 stacks, .* got 257"):
        planned(*stacks)


def test_an_unknown_wave_is_one_message_with_file_and_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("stacks").mkdir()
    Path("stacks/Pulumi.acme.yaml").write_text(
        """config:
  ebbtide:customer: acme
  ebbtide:businessHours: { timezone: Europe/Berlin, week: { mon-fri: "08:00-18:00" } }
  ebbtide:rollout:
    wave: cannary
  ebbtide:workers:
    train: { source: { queues: [train] }, image: "train:1", max: 2, cpu: 1, memory: 1Gi, longestJob: 1h }
"""
    )

    answer = CliRunner().invoke(app, ["changed", "--all", "--waves"])

    assert (answer.exit_code, answer.stdout) == (1, "")
    assert answer.stderr == (
        "stacks/Pulumi.acme.yaml:5: ebbtide:rollout.wave: wanted one of 'canary', 'early', 'rest', found 'cannary' "
        "(for example canary); did you mean canary?\n"
    )


COMMIT, OLDER = "a" * 40, "b" * 40


def gh(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A stand-in for gh: a shell script, which notes each call in the file `calls`."""
    Path("bin").mkdir()
    Path("bin/gh").write_text(f'#!/bin/sh\necho "$*" >> calls\n{text}\n')
    Path("bin/gh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{Path.cwd()}/bin:/usr/bin:/bin")


def deployment(commit: str, *states: str) -> dict[str, object]:
    nodes = [{"state": state, "createdAt": "2026-11-30T20:00:00Z"} for state in states]
    return {"commitOid": commit, "statuses": {"nodes": nodes}}


@pytest.mark.process
@pytest.mark.parametrize(
    ("newest_first", "deployed"),
    [
        ([], Deployed(None)),
        ([deployment(COMMIT, "WAITING", "IN_PROGRESS", "SUCCESS")], Deployed(COMMIT)),
        ([deployment(COMMIT, "SUCCESS", "INACTIVE")], Deployed(COMMIT)),
        ([deployment(COMMIT, "IN_PROGRESS"), deployment(OLDER, "SUCCESS", "INACTIVE")], Deployed(OLDER)),
        ([deployment(COMMIT, "FAILURE"), deployment(OLDER, "SUCCESS")], Deployed(OLDER, Failure(COMMIT, MONDAY_NIGHT))),
        ([deployment(COMMIT, "ERROR")], Deployed(None, Failure(COMMIT, MONDAY_NIGHT))),
        ([deployment(COMMIT), deployment(OLDER, "FAILURE")], Deployed(None)),
    ],
)
def test_the_newest_success_is_live_and_the_newest_deployment_may_have_failed(
    newest_first: list[dict[str, object]], deployed: Deployed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    gh(monkeypatch, f"echo '{json.dumps({'data': {'repository': {'s0': {'nodes': newest_first}}}})}'")

    assert read_deployments(["acme"]) == {"acme": deployed}


@pytest.mark.process
def test_many_stacks_take_few_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answers: dict[str, dict[str, list[object]]] = {f"s{number}": {"nodes": []} for number in range(50)}
    gh(monkeypatch, f"echo '{json.dumps({'data': {'repository': answers}})}'")

    assert len(read_deployments([f"stack{number}" for number in range(200)])) == 200
    assert len(Path("calls").read_text().splitlines()) == 4


@pytest.mark.process
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'gh: Resource not accessible by integration' >&2; exit 1", "Resource not accessible by integration"),
        ("exit 4", "failed with 4"),
        ("echo '{}'", "expected deployments, got"),
        ('echo \'{"data": {"repository": null}}\'', "expected deployments, got"),
        ('echo \'{"data": {"repository": {}}}\'', "expected deployments, got"),
        ("echo '<html>'", "expected deployments, got"),
    ],
)
def test_an_answer_that_says_nothing_is_an_error(
    script: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    gh(monkeypatch, script)

    with pytest.raises(DeploymentsUnknown, match=message):
        read_deployments(["acme"])


@pytest.mark.process
def test_without_gh_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(DeploymentsUnknown, match=r"gh: .* expected GitHub's CLI on PATH"):
        read_deployments(["acme"])
