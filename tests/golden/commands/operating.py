"""Commands on a running cluster: what it does, why, and an operator's holds."""

from collections.abc import Mapping

from tests.builders.settings import shortest
from tests.golden.commands import platform
from tests.golden.commands.case import Case
from tests.golden.commands.cluster import cluster
from tests.golden.commands.platform import BUDGETS, SYSTEM

_PLATFORM, _AWAY = cluster(platform.objects()), cluster(platform.away())
_BARE = cluster({f"{SYSTEM}/configmaps/ebbtide-controller": 403})
_KUBECONFIG = """{apiVersion: v1, kind: Config, current-context: here,
contexts: [{name: here, context: {cluster: c, user: u}}, {name: there, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}], users: [{name: u, user: {token: t}}]}
"""

CASES: Mapping[str, Case] = {
    "status/everything": Case(lines=["status"], json=["status --json"], stage=_PLATFORM),
    "status/colors": Case(lines=["status"], stage=_PLATFORM, widths=(80,), colors=True),
    "status/no-controller": Case(lines=["status"], json=["status --json"], stage=_AWAY),
    "status/refused": Case(lines=["status"], stage=_BARE),
    "status/unreachable": Case(
        lines=[
            "status --kubeconfig none",
            "top acme --once --kubeconfig none",
            "status --kubeconfig one --context strange",
        ],
        files={"stacks/Pulumi.acme.yaml": shortest(), "one": _KUBECONFIG},
    ),
    "why/pools-and-budgets": Case(
        lines=[
            *(f"why pool {name}" for name in ("train", "preprocess", "gone", "strange")),
            *(f"why budget {name}" for name in ("api", "web", "db", "lost", "strange")),
        ],
        stage=_PLATFORM,
    ),
    "why/no-controller": Case(lines=["why pool train", "why budget api", "why workload hub"], stage=_AWAY),
    "why/nodes": Case(lines=[f"why node {name}" for name in (*platform.NODES, "strange")], stage=_PLATFORM),
    "why/workloads": Case(
        lines=[f"why workload {name}" for name in ("hub", "notes", "ended", "strange")], stage=_PLATFORM
    ),
    "why/ray-and-services": Case(
        lines=[
            *(f"why ray {name}" for name in ("flow", "nightly", "flow-gpu-worker-1", "strange")),
            *(f"why service {name}" for name in ("embedder", "strange")),
        ],
        stage=_PLATFORM,
    ),
    "top/everything": Case(
        lines=["top acme"],
        json=["top acme --json"],
        files={"stacks/Pulumi.acme.yaml": shortest(more="aws:region: us-east-1")},
        stage=_PLATFORM,
    ),
    "top/no-controller": Case(lines=["top acme --once"], files={"stacks/Pulumi.acme.yaml": shortest()}, stage=_AWAY),
    "holds/pause-and-resume": Case(
        lines=["pause --why 'new driver'", "pause train strange --why x", "pause train --why ' '", "resume", "resume"],
        stage=cluster({**platform.objects(), f"PATCH {BUDGETS}/web": 403}),
    ),
    "holds/keep": Case(
        lines=["keep train api --until 23:00", "keep --until 2h", "keep --until yesterday"], stage=_PLATFORM
    ),
    "holds/wake-and-sleep": Case(
        lines=["wake --until 18:00", "wake hub --until 2h", "sleep hub notes --until 07:00", "sleep ended --until 1h"],
        stage=_PLATFORM,
    ),
    "holds/release": Case(
        lines=["release", "release train", "release --autoscaler", "release --autoscaler ended embedder-small"],
        stage=_PLATFORM,
    ),
}
