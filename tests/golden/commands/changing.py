"""Commands about a change in git: previews against a commit, with an engine's plan and with a trace; changed stacks.

They start git, so their tests are in the tier `process`.
"""

import json
import subprocess
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

from tests.builders.existing import CLUSTER_ID, onprem
from tests.builders.settings import shortest
from tests.builders.sides import Repository
from tests.golden.commands.case import Case, Stage, replaced
from tests.golden.commands.estimating import JOBS, SERVED
from tests.golden.commands.stack_files import FULL, NODES
from tests.unit.preview.test_plan import digest, state, step

_FILE = "stacks/Pulumi.full.yaml"
_RIGHTS = 'kubernetes: { rules: [{ groups: [""], resources: [pods], verbs: [get, list, watch, create, delete] }] }'
_EDITS = (
    ("zones: [a, b]", "zones: [b, c]"),
    ('mon-fri: "08:00-19:00", sat: "10:00-14:00"', 'mon-thu: "09:00-17:00", fri: "08:00-20:00"'),
    ("nat: per-zone, endpoints: true", "nat: single"),
    ("min: 3, max: 8", "min: 5, max: 9"),
    ("max: 20, diskSize: 200", "max: 16, diskSize: 100"),
    ("retention: 30d", "retention: 60d"),
    ("image: registry.example.com/ml/api:1.4.2\n      replicas: 3", "image: registry.example.com/ml/api:1.5.0"),
    ("perPod: 100Gi, at: /data, snapshots: { every: 24h, keep: 7 }", "perPod: 200Gi, at: /data"),
    (f"      {_RIGHTS}\n", ""),
    ("longestJob: 48h", "longestJob: 12h"),
    ("every: 10m, saveWithin: 1m }", "every: 10m, saveWithin: 30s, required: true, interruptible: inWindow }"),
    ('migrate: { image: "registry.example.com/ml/api:1.4.2"', 'migrate: { image: "registry.example.com/ml/api:1.5.0"'),
    ('schedule: "30 2 * * *"', 'schedule: "0 12 * * *"'),
    ("head: { cpu: 1, memory: 4Gi,", "head: { cpu: 2, memory: 8Gi,"),
    ("longestRequest: 60s", "longestRequest: 30s"),
    ("floor: calendar, open: 4", "floor: calendar, open: 3"),
    ("floor: forecast, margin: 1.2", "floor: forecast, margin: 1.1"),
    ("metrics: { cpu: 70%, memory: 80% }", "metrics: { cpu: 50% }"),
    ("weight: 90", "weight: 20"),
    ("weight: 10,", "weight: 80,"),
    ('promql: "sum(my_backlog)", target: 10', 'promql: "sum(my_backlog)", target: 5'),
)
_CUTS = ("    seer:\n", "    predict:\n", "        cheap:\n", "    hub:\n")
"""Entries that go: the workload with a GPU, a pool, a variant on spot nodes, and a workload with rights."""

_OTHER_EDITS = (
    ('version: "1.35", zones: [a, b]', 'version: "1.36", zones: [euc1-az2, euc1-az3]'),
    (', sat: "10:00-14:00" }', ' }\n    overnight: [{ pool: train, at: "22:00", for: 2h, workers: 1 }]'),
    ("[m7i.4xlarge, m6i.4xlarge]", "[m7g.4xlarge, m6g.4xlarge]"),
    ("kind: in-cluster, memory: 4Gi, storage: 16Gi, tls: { secret: redis-tls }", "kind: elasticache"),
    ('ebbtide:digestKey: { secure: "v1:a:b" }', 'ebbtide:digestKey: { secure: "v1:c:d" }'),
    ('db-login: { password: { secure: "v1:a:b" } }', 'db-login: { password: { secure: "v1:c:d" } }'),
    (
        "      max: 6\n      cpu: 6\n      memory: 24Gi\n      gpu: 1",
        "      max: 6\n      min: 2\n      cpu: 6\n      memory: 24Gi\n      gpu: 1",
    ),
    ('      checkpoints: { store: "s3://acme-checkpoints/resumed", every: 10m, saveWithin: 1m }\n', ""),
    (
        "      route: { host: models.full.internal, path: /foreseen }\n",
        "      route: { host: models.full.internal, path: /other }\n",
    ),
    ("min: 1, max: 6, floor: forecast, margin: 1.2", "min: 1, max: 6"),
    ("metrics: { cpu: 70%, memory: 80% }", 'metrics: { query: { promql: "sum(x)", target: 1 } }'),
    (", weight: 90 }", ", weight: 0 }"),
    (", weight: 10,", ", weight: 100,"),
)
_OTHER_CUTS = ("  ebbtide:ray:\n", "        large:\n")


def _edited(text: str, edits: Sequence[tuple[str, str]]) -> str:
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def _without(text: str, header: str) -> str:
    """The text without the entry, whose lines are indented further than its first one."""
    before, _, after = text.partition(header)
    depth = len(header) - len(header.lstrip())
    lines = after.splitlines(keepends=True)
    end = next((at for at, line in enumerate(lines) if len(line) - len(line.lstrip()) <= depth), len(lines))
    return before + "".join(lines[end:])


def _after(edits: Sequence[tuple[str, str]], cuts: Sequence[str]) -> str:
    text = _edited(FULL, edits)
    for header in cuts:
        text = _without(text, header)
    return text


def committed(before: Mapping[str, str]) -> Stage:
    """A repository with a commit of these files, which are gone from the working copy."""

    @contextmanager
    def stage() -> Generator[Sequence[object]]:
        repository = Repository(Path.cwd())
        for name, text in before.items():
            path = Path.cwd() / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        repository.git("add", "--all")
        repository.git("commit", "--quiet", "--message", "before")
        for name in before:
            Path(name).unlink()
        yield ()

    return stage


def _named(text: str, customer: str) -> str:
    return text.replace("customer: acme", f"customer: {customer}")


_SIZE = "cpu: 1, memory: 1Gi"
_POOL_OF_TEAM = "pool: { source: { queues: [etl] }, max: 4, longestJob: 2h, deployment: etl }"


def _adopting(**rules: str) -> str:
    lines = (f"  {name}: {{ namespace: team, {_SIZE}, {rule} }}\n" for name, rule in rules.items())
    password = 'ebbtide:redisPassword: { secure: "v1:a:b" }'
    return onprem(more=f"{password}\nebbtide:adopted:\n{''.join(lines)}")


_ADOPTING_BEFORE = _adopting(
    hub="category: fixed, replicas: 2, selector: { app: hub }",
    notes="category: flexible, replicas: 2, selector: { app: notes }",
    site="category: flexible, replicas: 3, selector: { app: site }",
    chart="category: flexible, replicas: 2, selector: { app: chart }, budget: chart-pdb",
    other="category: flexible, replicas: 2, selector: { app: other }",
    gone="category: flexible, replicas: 2, selector: { app: gone }, redis: true",
    etl=f"category: worker, selector: {{ app: etl }}, {_POOL_OF_TEAM}",
    load="category: worker, usually: 2, selector: { app: load }",
)
_ADOPTING_AFTER = _adopting(
    hub="category: flexible, replicas: 2, selector: { app: hub }",
    pages="category: flexible, replicas: 2, selector: { app: notes }",
    site="category: fixed, replicas: 3, selector: { app: web }",
    chart="category: worker, usually: 2, selector: { app: chart }",
    other="category: flexible, replicas: 2, selector: { app: other }, budget: other-pdb",
    new="category: flexible, replicas: 2, selector: { app: new }",
    etl="category: worker, usually: 2, selector: { app: etl }",
    load=f"category: worker, selector: {{ app: load }}, {_POOL_OF_TEAM.replace('etl', 'load')}",
)
_DISK = "volumes: { d: { perPod: 9Gi, at: /d } }"
_SLEEPS = "sleep: { when: outsideBusinessHours }"
_POOL = "max: 4, cpu: 4, memory: 16Gi, longestJob: 1h"
_SAVES = "checkpoints: { claim: checkpoints, every: 10m, saveWithin: 1m"
_SPOT = "spot: { instanceTypes: [m7i.2xlarge, m6i.2xlarge, m6a.2xlarge, m7i-flex.2xlarge], max: 8 }"


def _working(zone: str, workloads: Mapping[str, str], pools: Mapping[str, str]) -> str:
    """A stack of these workloads and pools, by their names."""
    keys = "image: x, replicas: 2, cpu: 2, memory: 8Gi"
    more = [NODES.replace("flexible: { max: 8 }", f"flexible: {{ max: 8 }}, {_SPOT}"), "ebbtide:workloads:"]
    more += [f"  {name}: {{ {keys}, {own} }}" for name, own in workloads.items()]
    more += [f"  disk: {{ category: fixed, image: disk, cpu: 1, memory: 4Gi, kind: stateful-set, {_DISK} }}"]
    text = _named(shortest(more="\n".join(more)), "working").replace("Europe/Berlin", zone)
    lines = (
        f'    {name}: {{ source: {{ queues: [{name}] }}, image: "example.com/train:1", {_POOL}{own} }}\n'
        for name, own in pools.items()
    )
    return text.replace("  ebbtide:workers:\n", f"  ebbtide:workers:\n{''.join(lines)}")


_WORKING = _working(
    "Europe/Berlin",
    {
        "api": f"category: flexible, {_SLEEPS}",
        "nap": "category: flexible",
        "wakes": f"category: flexible, {_SLEEPS}",
        "woken": "category: flexible, sleep: { when: never }",
        "steady": "category: flexible",
        "loose": "category: fixed",
    },
    {
        "cheap": "",
        "safe": f", {_SAVES}, required: true }}",
        "saves": "",
        "bold": f", {_SAVES}, interruptible: inWindow }}",
        "leaves": f", {_SAVES}, interruptible: inWindow }}",
        "ready": "",
    },
)
_REWORKED = _working(
    "Asia/Tokyo",
    {
        "api": "category: flexible",
        "nap": f"category: flexible, {_SLEEPS}",
        "wakes": "category: flexible, sleep: { when: never }",
        "woken": "category: flexible",
        "steady": "category: fixed",
        "loose": "category: flexible",
    },
    {
        "cheap": ", nodeGroup: spot",
        "safe": f", nodeGroup: spot, {_SAVES}, required: true }}",
        "saves": f", {_SAVES}, interruptible: inWindow }}",
        "bold": f", {_SAVES}, interruptible: always }}",
        "leaves": "",
        "ready": ", min: 2",
    },
)
_SMALL_BEFORE = {
    "Pulumi.yaml": "name: ebbtide\n",
    "infra/stack.py": "one = 1\n",
    "stacks/Pulumi.gone.yaml": _named(shortest(), "gone"),
    "stacks/Pulumi.former.yaml": _named(shortest(), "named"),
    "stacks/Pulumi.moved.yaml": _named(shortest(more=f"aws:region: eu-west-1\n{NODES}"), "moved"),
    "stacks/Pulumi.mended.yaml": _named(shortest(train="maxx: 1"), "mended"),
    "stacks/Pulumi.torn.yaml": _named(shortest(), "torn"),
    "stacks/Pulumi.same.yaml": _named(shortest(), "same"),
    "stacks/Pulumi.adopting.yaml": _ADOPTING_BEFORE,
    "stacks/Pulumi.working.yaml": _WORKING,
    "stacks/Pulumi.context.yaml": _named(onprem(), "context"),
}
_SMALL_AFTER = {
    "Pulumi.yaml": "name: ebbtide\n",
    "infra/stack.py": "one = 2\n",
    "stacks/Pulumi.named.yaml": _named(shortest(), "named"),
    "stacks/Pulumi.moved.yaml": _named(shortest(more=f"aws:region: eu-north-1\n{NODES}"), "moved"),
    "stacks/Pulumi.mended.yaml": _named(shortest(), "mended"),
    "stacks/Pulumi.torn.yaml": _named(shortest(train="maxx: 1"), "torn"),
    "stacks/Pulumi.same.yaml": _named(shortest(), "same"),
    "stacks/Pulumi.adopting.yaml": _ADOPTING_AFTER,
    "stacks/Pulumi.working.yaml": _REWORKED,
    "stacks/Pulumi.context.yaml": _named(onprem().replace("context: onprem", "context: other"), "context"),
    "stacks/Pulumi.fresh.yaml": _named(shortest(), "fresh"),
}
_SMALL = "gone named moved mended torn same adopting working context fresh"

_POOL_URN = "urn:pulumi:acme::ebbtide::ebbtide:components:WorkerPool::train"
_GROUP = "urn:pulumi:acme::ebbtide::aws:eks/nodeGroup:NodeGroup::flexible-a"
_BUCKET = "urn:pulumi:acme::ebbtide::aws:s3/bucket:Bucket::notes"
_NOT_KNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
_CONFIG = {"ebbtide:customer": "acme"}


def _plans() -> Mapping[str, str]:
    steps = (
        step(
            "update", _GROUP, {"diskSize": 50}, {"diskSize": _NOT_KNOWN}, detailedDiff={"version": {"kind": "update"}}
        ),
        {"op": "delete", "urn": _BUCKET, "oldState": state(_BUCKET, {"name": "notes"}, protect=True)},
    )
    strange = step("update", _POOL_URN.replace("::train", "::strange"))
    documents: Mapping[str, object] = {
        "sound": digest(*steps),
        "failed": digest(*steps, diagnostics=[{"severity": "error"}]),
        "empty": {},
        "no-op": digest({"urn": _GROUP}),
        "two": digest(*steps, step("update", _GROUP.replace(":acme:", ":other:"))),
        "elsewhere": digest(step("update", _GROUP.replace(":acme:", ":other:"))),
        "project": digest(step("update", _GROUP.replace("::ebbtide::", "::another::"))),
        "version": digest(strange),
        "settings": digest(*steps, config=_CONFIG),
    }
    return {f"{name}.json": json.dumps(document) for name, document in documents.items()} | {"text.json": "x"}


def _answers(*answers: object) -> Callable[..., object]:
    """Stands for GitHub's CLI; other programs start."""
    left, run = [*answers], cast("Callable[..., object]", subprocess.run)

    def started(command: Sequence[str], **how: Any) -> object:
        if command[0] != "gh":
            return run(command, **how)
        answer = left.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    return started


_RETRIED = _SMALL_BEFORE["stacks/Pulumi.gone.yaml"].replace("max: 4,", "max: 5,")


def _deployments() -> Stage:
    """GitHub knows a stack that is live, one whose last change failed and a new one; then it answers otherwise."""

    @contextmanager
    def stage() -> Generator[Sequence[object]]:
        with committed(_SMALL_BEFORE)():
            repository = Repository(Path.cwd())
            first = repository.git("rev-parse", "HEAD")
            repository.write(_RETRIED, "gone")
            repository.git("add", "stacks/Pulumi.gone.yaml")
            repository.git("commit", "--quiet", "--message", "a change that fails")
            last = repository.git("rev-parse", "HEAD")
            nodes: Mapping[str, Sequence[object]] = {
                "s0": [_deployment(first, "SUCCESS")],
                "s1": [_deployment(last, "FAILURE"), _deployment(first, "SUCCESS")],
                "s2": [],
            }
            document = {"data": {"repository": {name: {"nodes": found} for name, found in nodes.items()}}}
            text = json.dumps(document).encode()
            answers = _answers(
                *(subprocess.CompletedProcess[bytes]([], 0, text, b"") for _ in range(3)),
                subprocess.CompletedProcess[bytes]([], 0, b"[]", b""),
                subprocess.CompletedProcess[bytes]([], 1, b"", b"HTTP 401: Bad credentials\nTry again"),
                OSError(2, "No such file or directory"),
            )
            with patch("ebbtide.pull_requests.deployments.subprocess.run", answers):
                yield ()

    return stage


def _deployment(commit: str, reached: str) -> Mapping[str, object]:
    status = {"state": reached, "createdAt": "2026-11-19T20:00:00Z"}
    return {"commitOid": commit, "statuses": {"nodes": [status]}}


_LIVE = "changed former gone same --deployed"
_WAVES = "--waves --during-business-hours"
CASES: Mapping[str, Case] = {
    "preview/against-every-key": Case(
        lines=[f"preview full --against HEAD --format {form}" for form in ("text", "markdown")],
        files={_FILE: _after(_EDITS, _CUTS)},
        stage=committed({_FILE: FULL}),
        widths=(80,),
    ),
    "preview/against-other-keys": Case(
        lines=["preview full --against HEAD"],
        files={_FILE: _after(_OTHER_EDITS, _OTHER_CUTS)},
        stage=committed({_FILE: FULL}),
        widths=(80,),
    ),
    "preview/against": Case(
        lines=[
            f"preview {_SMALL} --against HEAD",
            "preview gone moved torn --against HEAD --format markdown",
            "preview same --against origin/strange",
            "preview same --against HEAD...HEAD",
        ],
        files=_SMALL_AFTER,
        stage=replaced({"ebbtide.preview.page._MOST_IN_ONE_PROCESS": 10}, committed(_SMALL_BEFORE)),
        widths=(80,),
    ),
    "preview/no-repository": Case(lines=["preview acme --against HEAD"], files=SERVED, widths=(80,)),
    "preview/planned": Case(
        lines=[
            "preview acme --plan sound.json --full",
            "preview acme --plan sound.json --against HEAD",
            *(f"preview acme --plan {name}" for name in sorted(_plans()) if name != "sound.json"),
            "preview acme --plan none.json",
        ],
        files={"stacks/Pulumi.acme.yaml": shortest(more=NODES), **_plans()},
        stage=committed({"stacks/Pulumi.acme.yaml": shortest(more=NODES)}),
        widths=(140,),
    ),
    "preview/traced": Case(
        lines=[
            "preview plain --against HEAD --trace jobs.csv --days 1",
            "preview plain --against HEAD --trace jobs.csv --days 1 --format markdown",
            "preview acme --against HEAD --trace requests.csv",
            "preview acme --against HEAD --trace requests.csv --format markdown",
            "preview plain --trace none.csv",
            "preview onprem --trace jobs.csv",
        ],
        files={
            **SERVED,
            "jobs.csv": JOBS,
            "stacks/Pulumi.plain.yaml": shortest(more=NODES),
            "stacks/Pulumi.onprem.yaml": onprem(f'clusterId: "{CLUSTER_ID}"'),
        },
        stage=committed(
            {
                "stacks/Pulumi.plain.yaml": shortest(more=NODES).replace("max: 4,", "max: 2,"),
                "stacks/Pulumi.acme.yaml": SERVED["stacks/Pulumi.acme.yaml"].replace("min: 6", "min: 2"),
            }
        ),
        widths=(140,),
    ),
    "changed/against": Case(
        lines=[
            "changed --against HEAD",
            "changed same --against HEAD",
            "changed --against HEAD --gone",
            "changed fresh moved --against HEAD --waves",
            "changed --against strange",
        ],
        files={**_SMALL_AFTER, "infra/stack.py": "one = 1\n"},
        stage=committed(_SMALL_BEFORE),
        widths=(80,),
    ),
    "changed/deployed": Case(
        lines=[_LIVE, f"{_LIVE} {_WAVES}", f"{_LIVE} {_WAVES} --retry", _LIVE, _LIVE, _LIVE],
        files={**_SMALL_BEFORE, "stacks/Pulumi.gone.yaml": _RETRIED},
        stage=_deployments(),
        widths=(80,),
    ),
}
