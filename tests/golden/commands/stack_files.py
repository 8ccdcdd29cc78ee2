"""Commands that read and write stack files: what they print, refuse and write."""

from collections.abc import Mapping

from ebbtide.recording.record import record
from ebbtide.recording.resources import Resource
from ebbtide.settings import StackSettings
from tests.builders.based import BASE, ON_PRODUCTION, PRODUCTION, STACK
from tests.builders.existing import onprem
from tests.builders.settings import shortest
from tests.golden.commands.case import Case, replaced, returns
from tests.paths import ROOT, STACK_FILES


def _stack(name: str, text: str) -> Mapping[str, str]:
    return {f"stacks/Pulumi.{name}.yaml": text}


def _shipped(*names: str) -> Mapping[str, str]:
    folders = (STACK_FILES, ROOT / "tests" / "golden" / "files" / "stacks")
    files = {path.stem.removeprefix("Pulumi."): path for folder in folders for path in folder.glob("*.yaml")}
    return {f"stacks/Pulumi.{name}.yaml": files[name].read_text(encoding="utf-8") for name in names}


NODES = "ebbtide:nodeGroups: { fixed: { instanceTypes: [m7i.2xlarge], min: 2, max: 4 }, flexible: { max: 8 } }"
REFUSED = """\
config:
  aws:region: eu-central-9
  ebbtide:customer: Acme Corp
  ebbtide:businessHours: { timezone: Europe/Berln, week: { mon-fri: "8-18", sat: closed, fri: "09:00-12:00" } }
  ebbtide:cluster: { version: "1.12", zones: [a, a], add-ons: {} }
  ebbtide:nodeGroups:
    flexible: { instanceTypes: [m7i.4xlarge, t2.nano, m99.huge], min: 5, max: 2 }
    gpu: { instanceTypes: [m7i.4xlarge], max: 1 }
  ebbtide:redis: { kind: redis }
  ebbtide:workers:
    train: { source: { queues: [] }, image: train, max: -1, cpu: 4, memory: 16GB, longestJob: soon, nodeGroup: gpus }
    prep: { source: { kind: rq, queues: [prep, prep] }, max: 2, cpu: 4000, memory: 16Gi, longestJob: 400d }
    Train_2: {}
  ebbtide:workloads:
    api: { category: flexible, image: "api:1", replicas: 1, cpu: 1, memory: 2Gi, ports: { http: 99999 }, replica: 2 }
    db: { category: fixt, image: "db:1", cpu: 1, memory: 4Gi, env: { REDIS_HOST: here, TOKEN: { secret: x } } }
  ebbtide:services:
    ranker: { image: "ranker:1", cpu: 1, memory: 2Gi, scale: { metrics: { cpu: 170% }, min: 4, max: 2 } }
  ebbtide:monitoring: { prometheus: yes }
  ebbtide:strange: 1
"""
SHARED = shortest(more="aws:region: eu-central-1").replace("Europe/Berlin", "America/New_York")
ODD = {
    **_stack("not-yaml", "config:\n  ebbtide:customer: [acme\n  x: }\n"),
    **_stack("no-config", "ebbtide:customer: acme\n"),
    **_stack("empty", ""),
    **_stack("twice", shortest(more="ebbtide:customer: other")),
    **_stack("tab", "config:\n\tebbtide:customer: acme\n"),
}
MANY = {
    **_shipped("demo", "example-berlin", "example-lisbon"),
    **_stack("acme", shortest(more=NODES)),
    **_stack("acme-two", SHARED),
    **_stack("onprem", onprem("nodeSelectors: { gpu: { pool: gpu, size: l } }").replace("acme", "onprem")),
    **_stack("broken", REFUSED),
    **_stack("unpriced", shortest(more=f"aws:region: il-central-1\n{NODES}").replace("acme", "unpriced")),
}
BASED = {
    BASE: PRODUCTION,
    STACK: ON_PRODUCTION
    + "  ebbtide:workers: { train: { max: 8, env: { A: b } } }\n"
    + "  ebbtide:redisPassword: { secure: v1:a:b }\n  aws:region: eu-west-1\n  other:key: hidden\n",
    "Pulumi.yaml": "name: platform\nconfig:\n  ebbtide:costs: { value: { tags: { team: ml } } }\n",
}
[FULL] = _shipped("full-eks").values()
"""The text with as many keys as go together on EKS."""
_ENOUGH = "--timezone Europe/Berlin --image registry.example.com/ml/train:1 --longest-job 12h"
_TYPED = "Europe/Berlin\n\nhere\neu-central-1\ntrain\nlatest train\nregistry.example.com/ml/train:1\n12h\ny\n"


_RESOURCES: dict[str, tuple[Resource, ...]] = {}


def _recorded_once(settings: StackSettings) -> tuple[Resource, ...]:
    """A stack is recorded once for all widths."""
    if settings.stack not in _RESOURCES:
        _RESOURCES[settings.stack] = record(settings)
    return _RESOURCES[settings.stack]


_ON_A_TERMINAL = replaced({"ebbtide.cli.new.on_terminal": returns(True)})
_RECORDED_ONCE = replaced({"ebbtide.cli.render.record": _recorded_once})

CASES: Mapping[str, Case] = {
    "check/sound": Case(lines=["check acme onprem unpriced"], files=MANY),
    "check/shipped": Case(lines=["check demo example-berlin example-lisbon"], files=MANY, widths=(80,)),
    "check/every-key": Case(lines=["check full-eks full-existing"], files=_shipped("full-eks", "full-existing")),
    "check/all": Case(lines=["check"], files={**MANY, **ODD}),
    "check/colors": Case(lines=["check acme broken"], files=MANY, widths=(80,), colors=True),
    "check/none": Case(lines=["check", "check strange", "stacks", "explain strange"]),
    "explain/based": Case(
        lines=["explain acme", "explain acme workers.train", "explain acme workers.train.maxx", "explain broken"],
        files={**BASED, **_stack("broken", REFUSED)},
    ),
    "docs/sections": Case(
        lines=["docs not-here#languages", "docs services", "docs lief", "docs not-here#queue"], widths=(80,)
    ),
    "stacks/many": Case(lines=["stacks"], json=["stacks --json -"], files=MANY),
    "dashboards/acme": Case(
        lines=["dashboards acme -o out"], files=_stack("acme", shortest()), written=["out"], widths=(80,)
    ),
    "new/flags": Case(
        lines=[
            f'new acme {_ENOUGH} --hours "mon-thu 08:00-18:00, fri 08:00-15:00" --gpu --yes',
            "new acme --yes",
            "new other --yes",
            f"new Other {_ENOUGH} --yes",
            f"new other {_ENOUGH} --timezone Mars/Base --image latest --region eu-central-9 --yes",
            f"new based {_ENOUGH} --base bases/production.yaml --region eu-west-1 --yes",
            f"new based2 {_ENOUGH} --base bases/none.yaml --yes",
        ],
        files={"Pulumi.yaml": "name: platform\n", BASE: PRODUCTION},
        written=["stacks"],
    ),
    "new/questions": Case(lines=["new acme"], stage=_ON_A_TERMINAL, answers=_TYPED, written=["stacks"]),
    "render/existing-cluster": Case(
        lines=["render onprem", "render onprem --output out"],
        json=["render onprem --graph", "render onprem --output out --graph"],
        files=MANY,
        stage=_RECORDED_ONCE,
        written=["out/APPLY.md", "out/kubernetes", "out/controller-config.json", "out/resources.json"],
    ),
    "render/demo": Case(lines=["render demo", "render broken"], files=MANY, stage=_RECORDED_ONCE),
    "render/every-key": Case(lines=["render full-eks"], files=_shipped("full-eks"), stage=_RECORDED_ONCE),
}
