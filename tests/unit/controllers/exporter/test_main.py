"""The command: refused arguments, metrics without a cluster, and a document that changes."""

import json
import socket
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path

import pytest

from controllers.adapters.kube_cache import KubeCache
from controllers.exporter.main import ExporterProcess, main
from controllers.process import ConfigFile
from ebbtide.vocabulary.documents import dump, load
from ebbtide.vocabulary.exporter import ExporterConfig
from tests.builders.controllers import NOON
from tests.builders.monitoring.expositions import kubeconfig
from tests.builders.monitoring.promql import series

CONFIG = ExporterConfig(namespace="ebbtide", hpa_namespaces=("one",), holidays_until=date(2028, 12, 31))


def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], document: str, *more: str) -> str:
    """The one line that it says."""
    file = tmp_path / "exporter.json"
    file.write_text(document)
    assert main(["--config", str(file), "--kubeconfig", kubeconfig(tmp_path), "--listen", "127.0.0.1:0", *more]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


@pytest.mark.parametrize(
    ("document", "says"),
    [("not json", "incomplete or malformed"), ("{}", "namespace"), ('{"namespace": 3}', "wanted str, found 3")],
)
def test_a_bad_document_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], document: str, says: str
) -> None:
    assert says in refused(tmp_path, capsys, document)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--config", "/nowhere.json"), "/nowhere.json"),
        (("--kubeconfig", "/nowhere"), "/nowhere"),
        (("--listen", "127.0.0.1:http"), "--listen 127.0.0.1:http: "),
        (("--listen", "127.0.0.1:99999"), "port must be"),
    ],
)
def test_a_bad_argument_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, str], says: str
) -> None:
    assert says in refused(tmp_path, capsys, dump(CONFIG), *more)


@pytest.mark.process
def test_a_taken_port_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert address in refused(tmp_path, capsys, dump(CONFIG), "--listen", address)


@pytest.fixture
def process(tmp_path: Path) -> ExporterProcess:
    file = tmp_path / "exporter.json"
    file.write_text(dump(CONFIG))
    return ExporterProcess(ConfigFile(file, partial(load, ExporterConfig)), kubeconfig(tmp_path))


def test_before_it_has_seen_anything_it_tells_of_itself_alone_and_is_not_ready(process: ExporterProcess) -> None:
    found = series(process.metrics())

    assert found.keys() == {
        "ebbtide_exporter_config_good",
        "ebbtide_exporter_clocks_agree",
        "ebbtide_exporter_sees",
        "ebbtide_holidays_end_timestamp_seconds",
    }
    assert process.pages["/readyz"]()[0] == 503
    assert process.pages["/healthz"]()[0] == 200
    assert json.loads(process.pages["/status"]()[2])["sees"]["nodes"] == "/api/v1/nodes: not listed yet"


def _nothing(_: object) -> None:
    pass


def test_it_looks_where_a_new_document_says_and_no_longer_where_the_old_one_said(
    process: ExporterProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No cache is started: what each would do is not this test's."""
    monkeypatch.setattr(KubeCache, "_run", _nothing)
    process.follow()
    (old,) = process.sight.hpas.values()
    (jobs,) = process.sight.cron_jobs.values()
    (tmp_path / "exporter.json").write_text(
        dump(
            ExporterConfig(
                namespace="ebbtide",
                hpa_namespaces=("two",),
                tls_endpoints=("redis:6379",),
                workload_namespaces=("ebbtide", "hub"),
                team_namespaces=("team",),
            )
        )
    )
    assert process.file.changed()
    process.follow()

    assert 'ebbtide_exporter_sees{what="hpas"} 0.0' in process.metrics(), "the new namespace is not listed yet"
    assert [*process.sight.hpas] == ["/apis/autoscaling/v2/namespaces/two/horizontalpodautoscalers"]
    assert old._closed.is_set()
    assert 'ebbtide_exporter_sees{what="workloads"} 0.0' in process.metrics()
    assert [*process.sight.workloads] == [
        f"/apis/apps/v1/namespaces/{it}/{kind}s" for it in ("ebbtide", "hub") for kind in ("deployment", "statefulset")
    ]
    assert [*process.sight.of_teams] == [
        f"/apis/apps/v1/namespaces/team/{kind}s" for kind in ("deployment", "statefulset")
    ]
    assert [*process.sight.cron_jobs.values()] == [jobs]
    assert not jobs._closed.is_set()
    assert process.certificates._endpoints == ("redis:6379",)


def test_a_namespace_that_its_team_deleted_hides_only_its_own_workloads(
    process: ExporterProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Caches are filled by hand, and one of them cannot list."""
    monkeypatch.setattr(KubeCache, "_run", _nothing)
    (tmp_path / "exporter.json").write_text(dump(replace(CONFIG, team_namespaces=("gone", "team"))))
    assert process.file.changed()
    process.follow()
    lost = process.sight.of_teams["/apis/apps/v1/namespaces/gone/deployments"]
    sight = process.sight
    caches = (sight.hpas, sight.cron_jobs, sight.workloads, sight.of_teams)
    for cache in (sight.nodes, sight.pods, *(cache for of_kind in caches for cache in of_kind.values())):
        cache._why = "HTTP 403" if cache is lost else ""
    sight.workloads["/apis/apps/v1/namespaces/ebbtide/deployments"]._kept = {"one": "deployment ebbtide/one"}
    sight.of_teams["/apis/apps/v1/namespaces/team/deployments"]._kept = {"two": "deployment team/two"}
    lost._kept = {"three": "deployment gone/three"}

    left = series(process.metrics())["ebbtide_workload_left_asleep"]
    assert sorted(labels["workload"] for labels in left) == ["deployment ebbtide/one", "deployment team/two"]
    assert process.unready() == ""
    assert sight.trouble_of_teams() == "/apis/apps/v1/namespaces/gone/deployments: HTTP 403"


def test_a_bad_document_is_reported_and_the_last_good_one_followed(process: ExporterProcess, tmp_path: Path) -> None:
    (tmp_path / "exporter.json").write_text("{")
    assert not process.file.changed()

    assert "ebbtide_exporter_config_good 0.0" in process.metrics()
    assert "ebbtide_holidays_end_timestamp_seconds" in process.metrics()


def test_a_condition_is_written_when_it_begins_and_when_it_ends(
    process: ExporterProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    for why in ("", "away", "away", ""):
        process.notes.note(NOON, "nodes", why)

    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(it["subject"], it["message"]) for it in told] == [("nodes", "away"), ("nodes", "no longer: away")]
