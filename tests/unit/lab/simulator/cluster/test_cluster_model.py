"""Pods' lives in the modelled cluster: replicas, victims, grace, budgets, bills."""

import pytest

from ebbtide.lab.simulator.cluster import StopReason
from tests.builders.cluster import Played, Witness, group, running, waiting, workload


def names(played: Played, name: str = "api") -> list[str]:
    return [pod.name for pod in played.cluster.pods(name) if not pod.stopping]


def test_scaling_takes_effect_as_an_event_and_not_inside_the_call() -> None:
    played = Played([group(initial=1)])
    played.cluster.deploy(workload(), 2)

    assert played.cluster.pods("api") == ()
    assert played.cluster.replicas("api") == 2
    assert len(running(played.at(1), "api")) == 2


def test_pods_run_after_their_start_up_time() -> None:
    played = Played([group(initial=1)])
    played.cluster.deploy(workload(startup_s=20), 1)

    assert running(played.at(19), "api") == []
    assert [pod.running_since for pod in running(played.at(21), "api")] == [20]


def test_pods_without_a_node_go_first() -> None:
    played = Played([group(initial=1)])
    played.cluster.deploy(workload(), 3)
    placed = {pod.name for pod in running(played.at(5), "api")}
    played.cluster.scale("api", 2)
    played.at(10)

    assert set(names(played)) == placed


def test_pods_that_do_not_run_yet_go_before_those_that_do() -> None:
    played = Played([group(initial=2)])
    played.cluster.deploy(workload(startup_s=30), 2)
    old = {pod.name for pod in running(played.at(40), "api")}
    played.cluster.scale("api", 4)
    played.at(50)
    played.cluster.scale("api", 2)
    played.at(60)

    assert set(names(played)) == old


def test_the_lowest_deletion_cost_goes_first_among_running_pods() -> None:
    played = Played([group(initial=2)])
    played.cluster.deploy(workload(), 4)
    chosen = running(played.at(100), "api")[2].name
    played.cluster.annotate(chosen, -100)
    played.at(101)
    played.cluster.scale("api", 3)
    played.at(110)

    assert chosen not in names(played)


@pytest.mark.parametrize(("after_s", "goes"), [(1, False), (6, True)])
def test_a_deletion_cost_counts_once_the_cache_has_it(after_s: float, goes: bool) -> None:
    played = Played([group(initial=2)], cache_lag_s=5)
    played.cluster.deploy(workload(cpu_m=1000), 2)
    played.at(50)
    played.cluster.scale("api", 4)
    oldest = running(played.at(4000), "api")[0].name
    played.cluster.annotate(oldest, -100)
    played.at(4000 + after_s)
    played.cluster.scale("api", 3)
    played.at(4020)

    assert (oldest not in names(played)) is goes


def test_of_pods_alike_the_one_that_runs_for_the_shortest_time_goes() -> None:
    played = Played([group(initial=4)])
    played.cluster.deploy(workload(cpu_m=3000), 3)
    old = {pod.name for pod in running(played.at(1000), "api")}
    played.cluster.scale("api", 4)
    played.at(1010)
    played.cluster.scale("api", 3)
    played.at(1020)

    assert set(names(played)) == old


def test_two_pods_of_a_set_on_one_node_are_thinned_out_first() -> None:
    played = Played([group(initial=2)])
    played.cluster.deploy(workload(cpu_m=1300), 3)
    played.at(10)
    played.cluster.scale("api", 2)
    cluster = played.at(20)

    assert len({pod.node for pod in running(cluster, "api")}) == 2


def test_a_listener_says_when_a_process_ends() -> None:
    witness = Witness(lasts=None)
    played = Played([group(initial=1)], listener=witness)
    played.cluster.deploy(workload(grace_s=100), 1)
    played.at(5)
    played.cluster.scale("api", 0)
    (pod,) = played.at(50).pods("api")
    assert pod.stopping
    played.cluster.pod_exited(pod)

    assert played.at(51).pods("api") == ()
    assert witness.stops == [("api-1", StopReason.SCALED_IN)]
    assert witness.killed == []
    assert [what for what, who in witness.told if who] == ["running", "stopping", "gone"]


def test_a_process_that_outlives_its_grace_period_is_killed() -> None:
    witness = Witness(lasts=None)
    played = Played([group(initial=1)], listener=witness)
    played.cluster.deploy(workload(grace_s=100), 1)
    played.at(5)
    played.cluster.scale("api", 0)

    assert len(played.at(104).pods("api")) == 1
    assert played.at(106).pods("api") == ()
    assert witness.killed == ["api-1"]


def test_a_pod_that_never_ran_is_gone_without_being_asked() -> None:
    witness = Witness()
    played = Played([group(initial=0)], listener=witness)
    played.cluster.deploy(workload(), 1)
    played.at(5)
    played.cluster.scale("api", 0)
    played.at(6)

    assert witness.told == [("gone", "api-1")]


def test_nodes_are_billed_from_the_start_while_they_stand() -> None:
    played = Played([group(initial=2), group("gpu")])

    assert played.at(3600).billed_seconds() == {"flexible": 7200, "gpu": 0}
    assert played.cluster.node_counts() == {"flexible": 2, "gpu": 0}


def test_without_an_autoscaler_nodes_stay_and_pods_wait() -> None:
    played = Played([group(initial=1)])
    played.cluster.deploy(workload(), 5)

    assert len(waiting(played.at(5000), "api")) == 3
    assert played.cluster.node_counts() == {"flexible": 1}


def test_a_workload_is_deployed_once() -> None:
    played = Played([group(initial=1)])
    played.cluster.deploy(workload(), 1)

    with pytest.raises(ValueError, match="api: deployed already"):
        played.cluster.deploy(workload(), 1)
