"""One table of all customers: a broken stack is a row, amounts that lack a price say so, and names are unique."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from ebbtide.cli.__main__ import app
from ebbtide.preview.customers import CustomerRow, NodeCost, as_document, customer_parts, customer_rows
from tests.builders.settings import shortest

FRIDAY_NOON = datetime(2026, 11, 27, 11, tzinfo=UTC)
NODES = "ebbtide:nodeGroups: { fixed: { instanceTypes: [m7i.2xlarge], min: 2, max: 4 } }"
EXISTING = "ebbtide:cluster: { kind: existing, context: office }"


def _rows(folder: Path, **files: str) -> dict[str, CustomerRow]:
    (folder / "stacks").mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / "stacks" / f"Pulumi.{name}.yaml").write_text(text, encoding="utf-8")
    return {row.stack: row for row in customer_rows(tuple(files), FRIDAY_NOON, folder)}


def _shown(rows: dict[str, CustomerRow]) -> str:
    out = StringIO()
    for part in customer_parts(tuple(rows.values())):
        Console(file=out, width=250, soft_wrap=True).print(part)
    return out.getvalue()


def _other(customer: str, text: str) -> str:
    return text.replace("ebbtide:customer: acme", f"ebbtide:customer: {customer}")


def test_business_hours_are_open_or_closed_until_a_time_of_the_stacks_zone(tmp_path: Path) -> None:
    file = shortest(more=NODES)
    far = _other("beta", file).replace("Europe/Berlin", "Asia/Tokyo")
    rows = _rows(tmp_path, acme=file, beta=far)
    shown = _shown(rows)

    assert "open until Fri 27 Nov 18:00 (Europe/Berlin)" in shown
    assert "closed until Mon 30 Nov 08:00 (Asia/Tokyo)" in shown
    assert as_document(tuple(rows.values()))["stacks"][1]["hours"]["until"] == "2026-11-30T08:00:00+09:00"


def test_nodes_cost_what_always_runs_and_what_the_groups_cost_at_max(tmp_path: Path) -> None:
    nodes = _rows(tmp_path, acme=shortest(more=NODES))["acme"].nodes

    assert nodes is not None
    assert nodes.always
    assert nodes.at_max is not None
    assert nodes.at_max > nodes.always
    assert nodes.without == ()


def test_a_price_that_is_missing_leaves_the_amount_out_and_says_so(tmp_path: Path) -> None:
    rows = _rows(tmp_path, acme=shortest(more=f"aws:region: ap-east-2\n{NODES}"))
    shown = _shown(rows)

    assert rows["acme"].nodes is not None
    assert (rows["acme"].nodes.always, rows["acme"].nodes.without) == (None, ("fixed", "flexible"))
    assert "without a price in ap-east-2: fixed and flexible of 1 stack" in shown
    assert "ebbtide prices update --region ap-east-2" in shown


def test_a_sum_that_lacks_a_price_and_one_with_an_estimate_are_marked(tmp_path: Path) -> None:
    row = _rows(tmp_path, acme=shortest(more=f"aws:region: af-south-1\n{NODES}"))["acme"]
    nodes = NodeCost(always=10, at_min=10, at_max=2000, without=("gpu",), estimated=("fixed",), prices_of=())

    assert row.nodes is not None
    assert "fixed" in row.nodes.estimated
    assert " about " in _shown({"acme": row})
    assert "at least about 2,000" in _shown({"acme": replace(row, nodes=nodes)})


def test_a_broken_stack_is_a_row_with_its_number_of_problems(tmp_path: Path) -> None:
    rows = _rows(tmp_path, acme=shortest(more=NODES), beta="config:\n  ebbtide:customer: 3\n  ebbtide:bogus: 1\n")

    assert not rows["beta"].passes
    assert f"{len(rows['beta'].problems)} problems" in _shown(rows)
    assert "Pulumi.beta.yaml:3: ebbtide:bogus" in _shown(rows)
    assert rows["acme"].passes


def test_an_existing_cluster_has_no_version_and_no_cost(tmp_path: Path) -> None:
    row = _rows(tmp_path, acme=shortest(more=EXISTING))["acme"]

    assert (row.problems, row.cluster_version, row.nodes, row.place) == ((), "", None, "context office")


def test_a_customer_twice_in_one_place_is_a_warning_of_both_stacks(tmp_path: Path) -> None:
    file = shortest(more=NODES)
    elsewhere = shortest(more=f"aws:region: eu-central-1\n{NODES}")
    rows = _rows(
        tmp_path, one=file, two=file, far=elsewhere, other=_other("beta", file), office=shortest(more=EXISTING)
    )
    warned = {name for name, row in rows.items() if any("expected one stack" in text for text in row.warnings)}

    assert warned == {"one", "two"}
    assert "one, two: ebbtide:customer: expected one stack for each customer in us-east-1, got acme in one, two" in (
        _shown(rows)
    )


def test_an_existing_cluster_is_known_by_its_id_whatever_its_context_is_called(tmp_path: Path) -> None:
    id_ = "clusterId: 8d5bd9a2-3f0b-4c4f-9d54-6a4c1a3f1f10"
    first, second = (shortest(more=EXISTING.replace("office }", f"{name}, {id_} }}")) for name in ("office", "work"))
    rows = _rows(tmp_path, one=first, two=second)

    assert [row.problems for row in rows.values()] == [(), ()]
    assert all(any("expected one stack" in text for text in row.warnings) for row in rows.values())


def test_the_command_ends_as_check_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _rows(tmp_path, acme=shortest(more=NODES))
    monkeypatch.chdir(tmp_path)
    fine = CliRunner().invoke(app, ["stacks", "--json", "-"])
    _rows(tmp_path, beta="config: 3\n")
    broken = CliRunner().invoke(app, ["stacks"])

    assert (fine.exit_code, broken.exit_code) == (0, 1)
    assert [row["stack"] for row in json.loads(fine.stdout)["stacks"]] == ["acme"]
    assert "1 problem" in broken.stdout


def test_check_without_arguments_warns_of_a_customer_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _rows(tmp_path, one=shortest(more=NODES), two=shortest(more=NODES))
    monkeypatch.chdir(tmp_path)
    everything, one = CliRunner().invoke(app, ["check"]), CliRunner().invoke(app, ["check", "one"])

    assert everything.stdout.count("expected one stack for each customer") == 1
    assert "expected one stack" not in one.stdout
    assert everything.exit_code == 0
