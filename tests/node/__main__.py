"""`make playground NODES=real`: a small customer's day and night on real nodes of this machine, in real time.

In another terminal `kubectl` looks at it by the line that is printed. When it ends, however it ends, no process, mount
or folder of it is left.

Exit codes: 0 shown to its end, 1 a part of it broke down, 2 it cannot be shown, 130 Ctrl-C.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from control_plane.nodes.cluster import RealCluster
from control_plane.nodes.host import missing, one_line
from control_plane.plane.binaries import binaries
from control_plane.plane.errors import ControlPlaneError

from ebbtide.vocabulary.labels import NAMESPACE
from tests.node.harbour import POOL, Harbour, boot_nodes, settle
from tests.paths import ROOT

_BEGAN = time.monotonic()


def say(line: str) -> None:
    print(f"{time.monotonic() - _BEGAN:5.0f} s  {line}", flush=True)


def main(arguments: Sequence[str]) -> int:
    if arguments not in ([], ["--stay"]):
        print(f"python -m tests.node [--stay], found: {' '.join(arguments)}", file=sys.stderr)
        return 2
    if lacking := missing():
        print(one_line(lacking), file=sys.stderr)
        return 2
    try:
        with RealCluster() as cluster, tempfile.TemporaryDirectory() as folder:
            _play(Harbour(cluster, Path(folder)), stay=bool(arguments))
    except (ControlPlaneError, AssertionError) as error:
        print(f"playground: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("playground: interrupted, and everything is ended", file=sys.stderr)
        return 130
    return 0


def _play(harbour: Harbour, *, stay: bool) -> None:
    say("booting three nodes: containerd, kubelet and kube-proxy on each")
    boot_nodes(harbour.cluster)
    say("applying the stack: a fixed hub, a flexible service of two pods, a pool of RQ workers, Redis")
    harbour.install()
    settle(harbour)
    say("everything is ready. In another terminal:")
    for line in _lines(harbour.cluster):
        print(f"         {line}", flush=True)
    for scene in (_jobs, _drain_by_day, _night, _power_cut, _morning):
        scene(harbour)
    say("that was all")
    while stay:
        time.sleep(1)


def _lines(cluster: RealCluster) -> Sequence[str]:
    """The cluster is in a network of its own, and so must be whoever looks at it."""
    inside = f"nsenter --net=/proc/{cluster.processes.pid('kube-apiserver')}/ns/net"
    known = f"env KUBECONFIG={cluster.plane.kubeconfig}"
    return (
        f"{inside} {known} {binaries()['kubectl']} get nodes,pods -A -o wide",
        f"{inside} {known} {Path(sys.executable).with_name('ebbtide').relative_to(ROOT)} status",
    )


# --- the scenes -------------------------------------------------------------------------------------------------------


def _jobs(harbour: Harbour) -> None:
    say(f"day: 4 jobs of 20 s come into the queue {POOL}, for which nobody works")
    jobs = harbour.enqueue(20, count=4)
    _watch(harbour, lambda: harbour.done(*jobs), lambda: f"workers: {len(harbour.workers())}")
    _watch(harbour, lambda: not harbour.workers(), lambda: f"workers: {len(harbour.workers())}, all jobs done")
    say("no job, no worker")


def _drain_by_day(harbour: Harbour) -> None:
    say("still day: kubectl drain n2 tries for 10 s")
    told = harbour.drain("n2", 10)
    refusals = [line for line in told.stderr.splitlines() if "disruption budget" in line]
    say(refusals[-1].strip() if refusals else "drained: none of the service's pods was there")
    harbour.uncordon("n2")


def _night(harbour: Harbour) -> None:
    say("the business hours end: the controller opens the budgets of flexible pods")
    harbour.make_night()
    say("kubectl drain n2")
    harbour.drain("n2", 300)
    where = sorted(
        f"{pod['metadata']['name']} on {pod['spec'].get('nodeName', 'none yet')}" for pod in harbour.pods("api")
    )
    say(f"drained: {', '.join(where)}")
    harbour.uncordon("n2")


def _power_cut(harbour: Harbour) -> None:
    say("n3 loses its power")
    harbour.cluster.cut_power("n3")
    harbour.wait(lambda: not harbour.cluster.is_ready("n3"), "the control plane to notice")
    say("the control plane has noticed; n3 boots again")
    harbour.cluster.boot("n3")
    harbour.cluster.wait_until_ready("n3")
    harbour.wait(lambda: harbour.ready("api", 2), "the service to be whole again")
    say("n3 is ready, and the service is whole")


def _morning(harbour: Harbour) -> None:
    harbour.make_day()
    closed = harbour.budget("api")["status"]["disruptionsAllowed"] == 0
    say(f"morning: the budget of api in {NAMESPACE} is {'closed' if closed else 'still open'}")


def _watch(harbour: Harbour, over: Callable[[], bool], look: Callable[[], str]) -> None:
    """Says what changes."""
    last = ""

    def step() -> bool:
        nonlocal last
        if (now := look()) != last:
            last = now
            say(now)
        return over()

    harbour.wait(step, "the jobs to be done")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
