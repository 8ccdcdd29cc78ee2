"""Complete pages from stack files and git: the compared sides, and the parts that remain if one cannot be read."""

import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ebbtide.findings import Severity
from ebbtide.lab.advice.change import ChangeReplay
from ebbtide.lab.simulator.trace.counted import RequestTrace, find_requests
from ebbtide.lab.simulator.trace.traces import Trace, find_trace
from ebbtide.policies.rule import PolicyResult
from ebbtide.preview.document import ChangeKind, CustomerPreview, Danger, PreviewDocument, StackVerdict
from ebbtide.preview.page import PageRequest, preview
from ebbtide.preview.plan import plan_of
from ebbtide.settings import load_stack
from tests.builders.preview import policy
from tests.builders.recorded import record
from tests.builders.settings import SHORTEST, shortest
from tests.builders.workloads.services import with_services

pytestmark = pytest.mark.process

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
BROKEN = SHORTEST.replace("max: 4", "max: -4")


class Repository:
    """Commit a customer's stack file, then change it if there is a new text."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.file = root / "stacks" / "Pulumi.acme.yaml"
        self.file.parent.mkdir()
        self._git("init", "--quiet")

    def commit(self, text: str) -> None:
        self.file.write_text(text, encoding="utf-8")
        self._git("add", ".")
        self._git("-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "--message", "a")

    def page(self, against: str | None = "HEAD", trace: Trace | None = None, **asked: Any) -> PreviewDocument:
        if trace is not None:
            days = asked.pop("days", None)
            asked["replay"] = played(trace, asked.pop("requests", None), **({} if days is None else {"days": days}))
        return preview(["acme"], self.root, PageRequest(now=NOW, against=against, **asked))

    def customer(self, against: str | None = "HEAD", **asked: Any) -> CustomerPreview:
        return self.page(against, **asked).customers[0]

    def _git(self, *arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=self.root, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path)
    made.commit(SHORTEST)
    return made


def test_nothing_changed_is_shown_as_nothing(repository: Repository) -> None:
    found = repository.customer()

    assert (found.changes, set(found.counts.values()), found.problems) == ((), {0}, ())
    assert found.verdict is not StackVerdict.BLOCKED
    assert not found.new


def test_a_changed_key_is_a_change_with_its_money(repository: Repository) -> None:
    repository.file.write_text(shortest(more="ebbtide:nodeGroups: { flexible: { max: 7 } }"))
    found = repository.customer()

    assert found.counts[ChangeKind.UPDATE] > 0
    assert found.cost is not None
    assert found.cost.before != found.cost.after


def test_a_page_says_what_evictions_do_not_wait_for(repository: Repository) -> None:
    service = '{ category: flexible, image: "example.com/a:1", cpu: 1, memory: 1Gi, replicas: 2 }'
    more = f"ebbtide:workloads: {{ api: {service}, web: {service} }}\nebbtide:nodeGroups: {{ spot: {{ max: 4 }} }}"
    repository.file.write_text(shortest(train="nodeGroup: spot", more=more).replace("12h", "30m"))
    found = repository.customer()

    assert found.nights is not None
    ready, spot = found.nights.warnings
    assert ready.startswith("flexible and without a readiness probe: api, web. A pod counts as ready")
    assert spot.startswith("workers.train.nodeGroup: spot has spot nodes")


def test_a_new_customer_is_all_create_and_has_no_before(repository: Repository) -> None:
    found = repository.customer(against=None)

    assert found.new
    assert {change.kind for change in found.changes} == {ChangeKind.CREATE}
    assert found.cost is not None
    assert found.cost.before is None
    assert found.nights is not None
    assert found.nights.rows
    assert found.ownership


def test_a_ref_that_is_not_there_hides_the_changes_and_says_so(repository: Repository) -> None:
    found = repository.customer(against="nowhere")

    assert "nowhere" in found.problems[0]
    assert (found.changes, found.verdict, found.incomplete, found.new) == ((), StackVerdict.ATTENTION, True, False)
    assert found.cost is not None


def test_a_file_that_is_invalid_now_blocks_and_shows_no_deletions(repository: Repository) -> None:
    repository.file.write_text(BROKEN)
    found = repository.customer()

    assert (found.verdict, found.incomplete, found.changes) == (StackVerdict.BLOCKED, True, ())
    assert "max" in found.problems[0]


def test_a_file_that_was_invalid_before_is_shown_as_it_will_be(repository: Repository) -> None:
    repository.commit(BROKEN)
    repository.file.write_text(SHORTEST)
    found = repository.customer()

    assert "max" in found.problems[0]
    assert (found.changes, found.incomplete, found.new) == ((), True, False)
    assert found.ownership


def test_a_stack_file_that_is_gone_destroys_nothing_and_says_so(repository: Repository) -> None:
    repository.file.unlink()
    found = repository.customer()

    assert found.dangers[0].code == "stack-file-removed"
    assert (found.verdict, found.changes, found.new) == (StackVerdict.ATTENTION, (), False)


def plan_file(project: str = "ebbtide", stack: str = "acme", op: str = "delete") -> Any:
    urn = f"urn:pulumi:{stack}::{project}::ebbtide:components:Workload$kubernetes:core/v1:ConfigMap::stale"
    return plan_of({"steps": [{"op": op, "urn": urn}], "changeSummary": {op: 1}}, "plan.json")


def test_a_plan_overrides_what_the_files_show(repository: Repository) -> None:
    found = repository.customer(plans=(plan_file(),))

    assert [(change.kind, change.name) for change in found.changes] == [(ChangeKind.DELETE, "stale")]
    assert found.counts[ChangeKind.DELETE] == 1
    assert found.verdict in {StackVerdict.ATTENTION, StackVerdict.BLOCKED}


def test_what_only_the_engine_knows_is_a_danger_of_its_own(repository: Repository) -> None:
    urn = "urn:pulumi:acme::ebbtide::ebbtide:components:NodeGroup$aws:eks/nodeGroup:NodeGroup::old-a-nodes"
    steps = [{"op": "delete", "urn": urn, "oldState": {"urn": urn, "protect": True}}]
    plan = plan_of({"steps": steps, "changeSummary": {"delete": 1}}, "plan.json")
    found = repository.customer(plans=(plan,))

    assert found.verdict is StackVerdict.BLOCKED
    assert (found.dangers[0].code, found.dangers[0].subjects) == ("undeclared-lost", ("old-a-nodes",))


@pytest.mark.parametrize("against", ["HEAD", None, "nowhere"])
def test_a_replacement_that_the_engine_plans_has_its_impact(repository: Repository, against: str | None) -> None:
    registered = record(load_stack("acme", repository.root))
    group = next(r for r in registered if r.type.endswith(":NodeGroup") and r.custom and "flexible" in r.name)
    steps = [{"op": "replace", "urn": group.urn, "replaceReasons": ["instanceTypes"]}]
    plan = plan_of({"steps": steps, "changeSummary": {"replace": 1}}, "plan.json")
    (danger,) = [d for d in repository.customer(against, plans=(plan,)).dangers if d.code == "node-group-lost"]

    assert "nodes" in danger.impact
    assert "instanceTypes" in danger.text


@pytest.mark.parametrize("wrong", [plan_file(project="other"), plan_file(op="update")])
def test_a_plan_of_something_else_is_one_line_and_ignored(repository: Repository, wrong: Any) -> None:
    found = repository.customer(plans=(wrong,))

    assert [problem.startswith("plan.json: ") for problem in found.problems] == [True]
    assert (found.changes, found.incomplete) == ((), True)
    assert found.cost is not None


def test_a_plan_of_a_stack_that_is_not_asked_for_is_one_line(repository: Repository) -> None:
    assert "stack beta" in repository.page(plans=(plan_file(stack="beta"),)).problems[0]


def played(trace: Trace, requests: RequestTrace | None = None, **days: int) -> ChangeReplay:
    return ChangeReplay(traces={"Europe/Berlin": trace}, requests=requests, **days)


def trace(folder: Path, *submitted: int, cpu: int = 4) -> Trace:
    path = folder / "small.csv"
    rows = [f"{at},600,train,{cpu},8,0" for at in submitted]
    path.write_text("\n".join(["submitted_at,duration_s,queue,cpu,memory_gib,gpu", *rows]) + "\n")
    return find_trace(path)


def test_a_trace_is_played_on_both_sides(repository: Repository, tmp_path: Path) -> None:
    repository.file.write_text(shortest(train="stabilizationWindow: 20m"))
    found = repository.customer(trace=trace(tmp_path, *range(0, 7200, 600))).simulated

    assert found is not None
    assert found.node_hours[0] is not None
    assert found.node_hours[0] != found.node_hours[1]
    assert (found.interrupted, found.coverage) == ((0, 0), (1.0, 1.0))
    assert found.note.startswith("With Karpenter for all flexible and GPU groups the same load costs $")


@pytest.mark.parametrize(("asked", "played"), [(None, 7), (2, 2), (30, 9)])
def test_of_a_long_trace_a_week_is_played_unless_more_is_asked_for(
    asked: int | None, played: int, repository: Repository, tmp_path: Path
) -> None:
    found = repository.customer(trace=trace(tmp_path, 0, 9 * 86_400 - 1), days=asked).simulated

    assert found is not None
    assert (found.days, found.trace_days) == (played, 9)


def test_a_side_that_runs_none_of_the_jobs_is_told(repository: Repository, tmp_path: Path) -> None:
    """Before the change no worker is large enough."""
    repository.file.write_text(shortest().replace("cpu: 4", "cpu: 7"))
    found = repository.customer(trace=trace(tmp_path, 0, 600, cpu=6)).simulated

    assert found is not None
    assert (found.usd[0], found.coverage) == (None, (None, 1.0))
    assert found.note.startswith("not replayed before the change: ")


def test_a_trace_of_requests_is_played_on_services_where_there_are_any(repository: Repository, tmp_path: Path) -> None:
    path = tmp_path / "requests.csv"
    rows = [f"{600 * place},600,train,{12 if place % 2 else 24}" for place in range(12)]
    path.write_text("\n".join(["t_s,window_s,queue,requests", *rows]) + "\n")
    jobs, requests = find_trace(path), find_requests(str(path))
    pools = repository.customer(trace=jobs, requests=requests)
    repository.file.write_text(with_services())
    services = repository.customer(trace=jobs, requests=requests)

    assert pools.simulated_services is None
    assert "fits a worker pool of the stack" in pools.problems[0]
    assert services.simulated is None
    assert services.simulated_services is not None
    assert [it.name for it in services.simulated_services.services] == ["embedder-small", "embedder-large", "ranker"]
    assert services.simulated_services.services[0].pod_hours[0] is None


def test_several_processes_make_the_same_page(repository: Repository, tmp_path: Path) -> None:
    stacks = ["acme", "beta", "gamma", "delta"]
    for name in stacks[1:]:
        (repository.root / "stacks" / f"Pulumi.{name}.yaml").write_text(BROKEN.replace("acme", name))
    asked = PageRequest(now=NOW, replay=played(trace(tmp_path, 0, 600)))

    together = preview(stacks, repository.root, asked)

    assert [one.stack for one in together.customers] == stacks
    assert together == preview(stacks, repository.root, asked, processes=1)


@pytest.mark.parametrize(
    ("severity", "excepted", "verdict"),
    [
        (Severity.BLOCKING, "", StackVerdict.BLOCKED),
        (Severity.BLOCKING, "it moves in June, until 2027-06-30", StackVerdict.SAFE),
        (Severity.WARNING, "", StackVerdict.ATTENTION),
        (Severity.NOTE, "", StackVerdict.SAFE),
    ],
)
def test_a_policy_decides_with_its_severity_unless_it_is_excepted(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, severity: Severity, excepted: str, verdict: StackVerdict
) -> None:
    def judged(*_: object) -> tuple[PolicyResult, ...]:
        return (policy(severity, excepted),)

    def harmless(*_: object) -> tuple[Danger, ...]:
        return ()

    monkeypatch.setattr("ebbtide.preview.page.judge", judged)
    monkeypatch.setattr("ebbtide.preview.page.dangers_of", harmless)

    assert repository.customer().verdict is verdict


def test_a_stack_above_its_ceiling_is_blocked_with_and_without_a_change(repository: Repository) -> None:
    repository.commit(shortest(more="ebbtide:costs: { ceiling: 700 }"))  # it always costs 708
    blocked = repository.customer()
    repository.file.write_text(shortest(more="ebbtide:costs: { ceiling: 20000 }"), encoding="utf-8")
    below = repository.customer()

    assert blocked.verdict is StackVerdict.BLOCKED
    assert [danger.code for danger in blocked.dangers] == ["ceiling-exceeded"]
    assert "ceiling-exceeded" not in {danger.code for danger in below.dangers}
    assert below.verdict is not StackVerdict.BLOCKED
