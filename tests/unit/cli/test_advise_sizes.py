"""`ebbtide advise sizes`: text, JSON, patch, and one line for each fault."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ebbtide.cli.advise import command
from ebbtide.demo.embedded_redis import free_port
from tests.builders.evidence.told import Points, Told, hourly, served
from tests.builders.monitoring.canned_api import canned_api
from tests.builders.settings import shortest

pytestmark = pytest.mark.process

STACK = """\
ebbtide:monitoring: { prometheus: bundled }
ebbtide:workloads:
  api: { category: flexible, image: "api:1", replicas: 3, cpu: 2, memory: 8Gi } # the front
  db: { category: fixed, image: "db:1", cpu: 1, memory: 4Gi }
"""
GIB = 2.0**30
PROXY = "/api/v1/namespaces/ebbtide/services/ebbtide-prometheus:9090"
VPAS = "/apis/autoscaling.k8s.io/v1/namespaces/ebbtide/verticalpodautoscalers"


def recorded() -> Mapping[str, Mapping[str, Points]]:
    api, db = (f"namespace=ebbtide workload={name}" for name in ("api", "db"))
    pods = {
        f"customer=acme group=flexible node=n1 {api} pod=api-6d4f8b7c9d-x2v4{end}": hourly(14, lambda _: 1)
        for end in "bcd"
    }
    pods[f"customer=acme group=fixed node=f1 {db} pod=db-6d4f8b7c9d-x2v4z"] = hourly(14, lambda _: 1)
    return {
        "container_cpu_usage": {
            f"{api} container=api": hourly(14, lambda _: 0.5),
            f"{db} container=db": hourly(14, lambda _: 0.8),
        },
        "container_memory_working": {
            f"{api} container=api": hourly(14, lambda _: GIB),
            f"{db} container=db": hourly(14, lambda _: 3.4 * GIB),
        },
        "oom_kills": {"workload=db": [(30.0, 1.0), (29.9, 1.0), (29.0, 0.0)]},
        "max_over_time(ebbtide_pod_requested_memory": {db: hourly(14, lambda _: 4 * GIB)},
        "node_info": pods,
    }


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(Told(datetime.now(UTC), recorded())) as found:
        yield found


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "Pulumi.acme.yaml").write_text(shortest(more=STACK))
    return tmp_path


def sizes(*words: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(command, ["sizes", "acme", *words], catch_exceptions=False)


def line(result: Result) -> str:
    assert result.exit_code in (1, 2)
    assert len(result.output.splitlines()) == 1, result.output
    return result.output.strip()


def test_each_change_is_a_line_with_its_reason(here: Path, url: str) -> None:
    result = sizes("--prometheus", url)

    assert result.exit_code == 0, result.output
    assert "workloads.api.cpu: 2 → 600m: 95 % of the time 0.5 was enough; margin 15 %" in result.output
    assert "workloads.db.memory: 4Gi → 5Gi: a kill for lack of memory at 4Gi" in result.output
    assert "workers.train: not enough evidence yet: 0 days of 7" in result.output
    assert "? CPU asked for" in result.output, "what nobody recorded is said"


def test_the_patch_is_taken_by_git_and_leaves_nothing_to_do(here: Path, url: str) -> None:
    first = sizes("--prometheus", url, "--patch", "sizes.patch", "--json", "sizes.json")
    subprocess.run(["git", "apply", "sizes.patch"], cwd=here, check=True)
    again = sizes("--prometheus", url)

    text = (here / "stacks" / "Pulumi.acme.yaml").read_text()
    assert "cpu: 600m, memory: 1.25Gi } # the front" in text
    assert first.exit_code == 0, first.output
    assert "Nothing to do." in again.output.splitlines()
    assert "→" not in again.output


def test_the_document_has_what_every_line_stands_on(here: Path, url: str) -> None:
    sizes("--prometheus", url, "--json", "sizes.json")
    document = json.loads((here / "sizes.json").read_text())
    found: dict[str, Any] = {one["path"]: one for one in document["containers"]}

    assert found["workloads.api"]["cpu"] == {
        "asks": 2000,
        "used": 500,
        "advised": 600,
        "reason": "95 % of the time 0.5 was enough; margin 15 %",
    }
    assert (found["workloads.db"]["oom_kills"], found["workloads.db"]["days"]) == (1, 14)
    assert {tuple(change["at"]) for change in document["changes"]} >= {("ebbtide:workloads", "api", "cpu")}


def test_a_document_that_no_longer_fits_the_file_changes_nothing(here: Path, url: str) -> None:
    sizes("--prometheus", url, "--json", "sizes.json")
    file = here / "stacks" / "Pulumi.acme.yaml"
    file.write_text(file.read_text().replace("cpu: 2, memory: 8Gi", "cpu: 3, memory: 8Gi"))

    result = CliRunner().invoke(command, ["apply", "acme", "sizes.json"])

    assert "workloads.api.cpu: wanted 2, which the advice was made for, found 3" in line(result)
    assert "600m" not in file.read_text()


def test_behind_the_api_server_the_vertical_autoscalers_word_stands_beside(here: Path, url: str) -> None:
    target = {"cpu": "587m", "memory": "1258291200"}
    vpa = {
        "spec": {"targetRef": {"kind": "Deployment", "name": "api"}},
        "status": {"recommendation": {"containerRecommendations": [{"containerName": "api", "target": target}]}},
    }
    with canned_api({VPAS: {"items": [vpa]}}, {PROXY: url}) as api:
        result = sizes("--kubeconfig", api.kubeconfig(here), "--json", "sizes.json")

    document = json.loads((here / "sizes.json").read_text())
    assert result.exit_code == 0, result.output
    assert document["containers"][0]["vpa"] == {"cpu": 587, "memory": 1200}
    assert "587m, 1200Mi" in result.output


def test_a_prometheus_that_is_away_is_one_line(here: Path) -> None:
    address = f"http://127.0.0.1:{free_port()}"

    assert line(sizes("--prometheus", address)) == f"Prometheus at {address}: [Errno 111] Connection refused"


def test_a_prometheus_without_the_containers_series_is_a_line_for_each(here: Path) -> None:
    with served(Told(datetime.now(UTC), {})) as empty:
        result = sizes("--prometheus", empty)

    assert result.exit_code == 1
    assert result.output.splitlines() == [
        f"Prometheus at {empty} has nothing for container_{metric} of its pods"
        for metric in ("cpu_usage_seconds_total", "memory_working_set_bytes")
    ]


def test_a_prometheus_that_does_not_watch_the_stack_is_one_line(here: Path) -> None:
    with served(Told(datetime.now(UTC), recorded(), watched=False)) as other:
        result = sizes("--prometheus", other)

    assert line(result) == (
        f'Prometheus at {other} has nothing for max(timestamp(ebbtide_pod_info{{customer="acme"}})); wanted one that '
        "scrapes Ebbtide's exporter of acme"
    )


def test_a_stack_without_a_prometheus_is_one_line(here: Path) -> None:
    file = here / "stacks" / "Pulumi.acme.yaml"
    file.write_text(file.read_text().replace("{ prometheus: bundled }", "{ prometheus: none }"))
    with canned_api({}) as api:
        result = sizes("--kubeconfig", api.kubeconfig(here))

    assert line(result) == "acme has no Prometheus: wanted monitoring.prometheus in its file, or --prometheus URL"


@pytest.mark.parametrize("since", ["6d", "31d", "180h"])
def test_whole_days_reach_from_a_week_to_a_month(here: Path, since: str) -> None:
    result = sizes("--since", since)

    assert result.exit_code == 2
    assert "wanted 7d to 30d" in result.output


def test_the_former_name_works_and_tells_the_new_one(here: Path, url: str) -> None:
    result = sizes("--prometheus", url, "--days", "7")

    assert result.exit_code == 0, result.output
    assert result.stderr == "--days 7 is --since 7d now; the next release no longer reads it\n"


def test_both_names_at_once_are_refused(here: Path) -> None:
    result = sizes("--since", "14d", "--days", "7")

    assert result.exit_code == 2
    assert "give only --since" in result.output
