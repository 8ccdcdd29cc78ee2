"""The Envoy of demo and tests: it starts, follows its files, ends, and reports in one line why it cannot start."""

import stat
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from ebbtide.demo.embedded_envoy import EmbeddedEnvoy, NoEnvoy, Route, Upstream, find_envoy, wait_until
from tests.processes import lives

pytestmark = pytest.mark.process

NAME = "httproute/ebbtide/embedder/rule/0"  # as Envoy Gateway names them
ADDRESSES = {("127.0.0.1", 9), ("127.0.0.2", 9)}


def gateway() -> EmbeddedEnvoy:
    return EmbeddedEnvoy([Upstream(name=NAME)], [Route(to={NAME: 1})])


def test_it_answers_inside_and_is_gone_after() -> None:
    with gateway() as its:
        pid, port = its.pid, its.port
        with pytest.raises(urllib.error.HTTPError, match="503"):  # nobody is behind it
            urllib.request.urlopen(f"http://{its.host}:{port}/")

    assert pid is not None
    assert not lives(pid)
    with pytest.raises(urllib.error.URLError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/")


def test_endpoints_come_and_go_while_it_runs() -> None:
    with gateway() as its:
        its.set_endpoints(NAME, ADDRESSES)
        wait_until(lambda: its.endpoints(NAME) == ADDRESSES, "both")
        its.set_endpoints(NAME, [])
        wait_until(lambda: not its.endpoints(NAME), "none")

        assert its.endpoints("another") == set()


def test_routes_change_while_it_runs() -> None:
    with gateway() as its:
        its.set_upstreams([Upstream(name=NAME), Upstream(name="more", balance="RANDOM")])
        its.set_endpoints("more", ADDRESSES)
        wait_until(lambda: its.endpoints("more") == ADDRESSES, "the new upstream")
        its.set_routes([Route(to={"more": 1}, retry_on="")])
        wait_until(lambda: answers(its) and its.stats("cluster.more.upstream_rq_total") != {}, "the new route")
        wait_until(lambda: answers(its) and its.stats("cluster.more.upstream_cx_connect_fail").popitem()[1] > 0, "it")


def answers(its: EmbeddedEnvoy) -> bool:
    with pytest.raises(urllib.error.HTTPError, match="503"):
        urllib.request.urlopen(f"http://{its.host}:{its.port}/")
    return True


def test_several_run_at_once_with_ports_of_their_own() -> None:
    with gateway() as one, gateway() as other:
        assert len({one.port, other.port, one.admin_port, other.admin_port}) == 4
        one.stop()

        assert other.in_flight(NAME) == 0
        with pytest.raises(NoEnvoy, match="does not answer"):
            one.in_flight(NAME)
        with pytest.raises(NoEnvoy, match="does not run"):
            one.set_endpoints(NAME, [])


def test_the_environment_names_the_program_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ENVOY_SERVER", str(program(tmp_path)))

    assert find_envoy() == tmp_path / "my-envoy"


def test_a_named_program_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVOY_SERVER", "/nowhere/envoy")

    with pytest.raises(NoEnvoy, match="ENVOY_SERVER=/nowhere/envoy: no such program"):
        find_envoy()


def test_the_package_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENVOY_SERVER", raising=False)

    assert find_envoy().parts[-3:] == ("envoy", "_bin", "envoy")


def test_one_that_ends_at_once_is_told_with_its_last_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ENVOY_SERVER", str(program(tmp_path)))

    with pytest.raises(NoEnvoy, match=r"did not start on port \d+: out of luck"), gateway():
        pytest.fail("it started")


def program(folder: Path) -> Path:
    file = folder / "my-envoy"
    file.write_text("#!/bin/sh\necho out of luck\nexit 1\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return file
