"""Commands that estimate: replays, sweeps, advice and prices, of traces of a few hours."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from unittest.mock import patch

from tests.builders.settings import shortest
from tests.builders.workloads.tuned import SMALL, a_stack, an_afternoon
from tests.golden.commands.case import Case, replaced, returns
from tests.golden.commands.cluster import cluster
from tests.golden.commands.stack_files import FULL, MANY
from tests.golden.commands.telling import OF_REQUESTS, OF_SIZES, VPAS
from tests.unit.cli.test_advise_sizes import STACK as SIZED
from tests.unit.lab.sweep.stacks import HEADER, STACK
from tests.unit.prices.stubbed_aws import REGION, StubbedAws, answer_region

_OWN = (SMALL, "cpu: 3, memory: 12Gi, scale: { metrics: { inFlight: 3 }, min: 6, max: 12 } } # since the launch\n")
JOBS = HEADER + "".join(
    f"{at},{600 + 300 * (at % 5)},{('train', 'prep', 'mail', '')[at % 4]},{4 if at % 7 else 99},8,{at % 2}\n"
    for at in range(0, 36_000, 601)
)
_FEW = HEADER + "".join(f"{9 * 3600 + 700 * n},{300 + 90 * (n % 4)},q,2,4,0\n" for n in range(12))
_MUCH = HEADER + "".join(f"{1800 * n},3600,q,2,4,0\n" for n in range(47))
_REQUESTS = "t_s,window_s,queue,requests\n" + "".join(
    f"{place * 600},600,chat,{count:.0f}\n" for place, count in enumerate(an_afternoon(hours=2).totals) if count
)
SERVED = {
    "stacks/Pulumi.acme.yaml": a_stack(_OWN).text,
    "requests.csv": _REQUESTS,
    "stacks/Pulumi.plain.yaml": shortest(),
}
_REFUSED = {"stacks/Pulumi.broken.yaml": shortest(train="maxx: 1")}
_PLAYED = {**MANY, **_REFUSED, "jobs.csv": JOBS, "few.csv": _FEW, "torn.csv": HEADER + "1,2\nx,y,z,1,2,3\n"}
_EVERY = HEADER + "".join(
    f"{at},{600 + 300 * (at % 5)},{('train', 'resumed', 'predict')[at % 3]},"
    f"{2 if at % 3 else 4},8,{0 if at % 3 else at % 2}\n"
    for at in range(0, 36_000, 1801)
)
_CAPACITY = "from,until,zone,type,event,source\n"
_GPUS = """\
config:
  ebbtide:customer: gpus
  ebbtide:businessHours: { timezone: Europe/Berlin, week: { mon-fri: "08:00-18:00" } }
  ebbtide:nodeGroups:
    gpu: { instanceTypes: [g5.2xlarge], max: 8 }
    gpu-spot: { kind: spot, instanceTypes: [g5.4xlarge, g5.2xlarge, g6.2xlarge], max: 16 }
  ebbtide:workers:
    train:
      source: { queues: [train] }
      image: example.com/train:1
      max: 8
      cpu: 7
      memory: 24Gi
      gpu: 1
      longestJob: 12h
      nodeGroup: gpu-spot
      fallback: gpu
      checkpoints: { store: s3://acme-states, required: true }
"""
_SWEPT = {
    "few.csv": _FEW,
    "much.csv": _MUCH,
    **_REFUSED,
    **{f"stacks/Pulumi.{name}.yaml": STACK.format(customer=name, cpu=4) for name in ("acme", "bolt")},
    "stacks/Pulumi.far.yaml": STACK.format(customer="far", cpu=4).replace("us-east-1", "il-central-1"),
}
_WEEKS = HEADER + "".join(
    f"{86_400 * day + 28_800 + 300 * number},1800,train,2,4,0\n"
    for day in range(16)
    if day % 7 < 5
    for number in range(4)
)
_USAGE = "hour,group,nodes\n" + "".join(
    f"2026-06-{day:02}T{hour:02}:00Z,{group},{count}\n"
    for day in range(1, 8)
    for hour in range(24)
    for group, count in (("fixed", 2), ("flexible", 3 if 8 <= hour < 18 else 1), ("gpu", hour % 3))
)
_MORNINGS = HEADER + "".join(
    f"2026-06-{day:02}T08:{2 + number // 2:02}:{number % 2 * 30:02}+02:00,1800,train,4,8,0\n"
    for day in range(1, 16)
    if day % 7 not in (6, 0)
    for number in range(10)
)
_EXPORTED = {
    "sacct.csv": "JobID|Submit|Start|End|Partition|AllocTRES|State|Note\n"
    "1|2026-06-01T09:00:00|2026-06-01T09:01:00|2026-06-01T10:01:00|gpu|cpu=4,mem=16G,gres/gpu=1|COMPLETED|x\n"
    "1.batch|2026-06-01T09:00:00|2026-06-01T09:01:00|2026-06-01T10:01:00|gpu|cpu=4,mem=16G|COMPLETED|x\n"
    "2|2026-06-01T11:00:00|Unknown|Unknown|cpu|cpu=2,mem=8G|PENDING|x\n"
    "3|2026-06-02T11:00:00|None|2026-06-02T11:05:00|cpu|cpu=2,mem=8G|CANCELLED by 1|x\n"
    "4|2026-06-02T12:00:00|2026-06-02T12:00:00|2026-06-02T12:30:00|cpu|cpu=2|COMPLETED|x\n",
    "flower.csv": "uuid,name,sent,received,started,succeeded,failed,routing_key\n"
    "a,t,1780304400,1780304401,1780304402,1780304460,,train\n"
    "b,t,,1780304501,1780304502,1780304560,,train\n"
    "c,t,,,1780304502,1780304560,,train\n"
    "d,t,1780304600,1780304601,1780304602,,,train\n",
    "rq.csv": "id,origin,enqueued_at,started_at,ended_at\n"
    "a,train,2026-06-01T09:00:00Z,2026-06-01T09:00:10Z,2026-06-01T09:10:00Z\n"
    "b,train,2026-06-01T09:05:00Z,2026-06-01T09:10:00Z,2026-06-01T09:10:00Z\n",
    "ms.csv": "born,duration_ms,queue,gpus,memory_mb\n"
    "2026-06-01 09:00,60000,train,1,512\n2026-06-09 09:00,0,train,0,\n",
}
_TORN = {
    "twice.csv": "submitted_at,queue,queue,duration_s\n0,a,a,1\n",
    "none.csv": HEADER,
    "amounts.csv": "submitted_at,duration_s,queue,gpu_cards\n0,60,q,1\n",
    "cells.csv": HEADER
    + "".join(
        f"{cells}\n" for cells in ("-1,60,q,1,1,0", "0,1e9,q,1,1,0", "0,x,q,1,1,0", "0,60,q,-1,1,0", "0,60,q,1,x,2.5")
    )
    + "0,60,q,1,1,0\n",
    "rare.csv": HEADER + "0,60,q,1,1,0\n9000000,60,q,1,1,0\n",
    "times.csv": "submitted,started,finished,queue\n2026-06-01 09:00,2026-06-01 09:00,2026-06-01 08:00,q\n"
    "2026-03-29 02:30,2026-03-29 03:30,2026-03-29 04:00,q\n2026-06-01T09:00Z,2026-06-01T09:00Z,2026-06-01T10:00Z,q\n",
    "jobs.json": "[1, 2",
    "jobs.jsonl": '{"submitted_at": 0}\n[1]\n',
    "windows.csv": "t_s,window_s,queue,requests\n600,600,chat,5\n0,600,chat,5\n1200,600,chat,x\n1500,600,chat,1\n"
    "3000,300,chat,1\n-1,1e9,chat,-5\n",
    "silent.csv": "t_s,window_s,queue,requests\n0,600,chat,0\n600,600,chat,0\n",
    "empty.csv": "",
}
_USED_BADLY = {
    "empty.csv": "",
    "header.csv": "hour,nodes\n",
    "rows.csv": "hour,group,nodes\n2026-06-01T00:30Z,fixed,1\n2026-06-01T00:00Z,strange,1\n2026-06-01T00:00Z,fixed,-1\n"
    "2026-06-01T01:00Z,fixed,1\n2026-06-01T01:00Z,fixed,1\n",
    "none.csv": "hour,group,nodes\n",
    "types.csv": "hour,group,nodes\n"
    + "".join(f"2026-06-{1 + hour // 24:02}T{hour % 24:02}:00Z,flexible,{1 + hour % 3}\n" for hour in range(96)),
}
_LARGE = HEADER + "0,600,q,4000,8000,0\n60,600,q,4000,8000,0\n"
_POOLS = "".join(shortest().partition("  ebbtide:workers")[1:])
_ONLY_SERVED = "ebbtide:workloads: { api: { category: flexible, image: api, replicas: 2, cpu: 2, memory: 8Gi } }"
_UNSIZED = "submitted_at,duration_s,queue\n0,600,q\n60,600,q\n"
_SIZED = {"stacks/Pulumi.acme.yaml": shortest(more=SIZED)}


_NO_TIME = SimpleNamespace(perf_counter=returns(0.0), process_time=returns(0.0))
_TIMED = replaced(  # replays say how long they took
    {
        "ebbtide.lab.simulator.replay.run.time": _NO_TIME,
        "ebbtide.lab.simulator.services.replay.perf_counter": _NO_TIME.perf_counter,
        "ebbtide.lab.sweep.task.time": _NO_TIME,
    }
)
_SWEEPING = replaced(  # the digest of all sources changes with every commit
    {
        "ebbtide.cli.sweep.code": returns("of-this-tree"),
        "ebbtide.lab.sweep.plan.digest_of": returns("of-this-tree"),
        "sys.argv": ["ebbtide", "sweep"],
    },
    _TIMED,
)
_ONE_PROCESS = replaced({"ebbtide.lab.sweep.calls.cores": returns(1)})
_RECORDED_REQUESTS = replaced({"ebbtide.operate.prometheus.named_link": returns(OF_REQUESTS)})


@contextmanager
def _aws() -> Generator[Sequence[object]]:
    aws = StubbedAws()
    answer_region(aws, prices={"m7i.2xlarge": 0.4, "g6.2xlarge": 1.1})
    with patch("ebbtide.prices.aws_client.new_client", aws.client):
        yield ()


_STRANGE = "usd where wait_p95_s is low and x < 1 and usd < strange.usd"
_NEVER = "usd where wait_p95_s <= 0"
_FAILING = "--spot-interruptions 50 --failed-boots 0.2 --slow-boots 0.5 --image-pull 60s --no-rollouts"
_STRATEGIES = "--strategy fixed-flexible --strategy fixed-flexible-spot"
_KARPENTER = "--strategy karpenter --strategy karpenter-defaults --strategy keda-defaults"
SWEEP = "--processes 1 --results out"
CASES: Mapping[str, Case] = {
    "simulate/jobs": Case(
        lines=["simulate demo --trace jobs.csv", "simulate demo --trace jobs.csv --full --strategy fixed-flexible"],
        json=["simulate demo --trace jobs.csv --json - --report page.html"],
        stage=_TIMED,
        files=_PLAYED,
        written=["page.html"],
    ),
    "simulate/compared": Case(
        lines=[
            "simulate demo example-berlin --trace jobs.csv --strategy fixed-flexible --strategy fixed-fleet",
            "simulate demo --trace few.csv --shift 6h --shift -3h --strategy fixed-flexible",
        ],
        json=[
            "simulate demo example-berlin --trace few.csv --strategy fixed-flexible --json -",
            "simulate demo --trace few.csv --shift 6h --strategy fixed-flexible --json -",
        ],
        stage=_TIMED,
        files=_PLAYED,
    ),
    "simulate/failing": Case(
        lines=[
            f"simulate example-berlin --trace jobs.csv {_FAILING} --queues train=finetune,prep=embed {_STRATEGIES}",
        ],
        files=_PLAYED,
    ),
    "simulate/capacity": Case(
        lines=[
            "simulate gpus --trace gpus.csv --spot-capacity capacity.csv --strategy fixed-flexible --full",
            "simulate gpus --trace gpus.csv --spot-capacity synthetic --strategy fixed-flexible",
            "simulate gpus --trace gpus.csv --spot-capacity torn.csv",
            "simulate gpus --trace gpus.csv --spot-capacity none.csv",
            "advise savings saved --trace gpus.csv",
        ],
        json=["simulate gpus --trace gpus.csv --spot-capacity capacity.csv --strategy fixed-flexible --json -"],
        files={
            "stacks/Pulumi.gpus.yaml": _GPUS,
            "stacks/Pulumi.saved.yaml": _GPUS.replace("nodeGroup: gpu-spot\n      fallback: gpu", "nodeGroup: gpu")
            .replace("    gpu-spot: { kind: spot, instanceTypes: [g5.4xlarge, g5.2xlarge, g6.2xlarge], max: 16 }\n", "")
            .replace("customer: gpus", "customer: saved"),
            "gpus.csv": HEADER + "".join(f"{at},{3600 + at % 7200},train,4,16,1\n" for at in range(0, 80_000, 2400)),
            "capacity.csv": _CAPACITY + "0,21600,,g5.2xlarge,no-capacity,our account\n"
            "36000,,us-east-1a,,interruption,our account\n",
            "torn.csv": _CAPACITY + "x,1,,g5.2xlarg,no-capacity,\n5,1,,,outage,synthetic\n",
        },
        stage=_TIMED,
        widths=(80,),
    ),
    "simulate/assumed": Case(
        lines=[f"simulate full --trace every.csv --max-job 24m {_FAILING} {_STRATEGIES} {_KARPENTER} --full"],
        files={"every.csv": _EVERY, "stacks/Pulumi.full.yaml": FULL},
        stage=_TIMED,
        widths=(80,),
    ),
    "simulate/described": Case(
        lines=[
            "simulate --describe jobs.csv",
            "simulate --describe jobs.csv --suggest like.yaml",
            "simulate --describe jobs.csv --from 2026-01-01",
            "simulate --describe jobs.csv --columns duration_s=strange",
        ],
        json=["simulate --describe jobs.csv --json -", "simulate --describe few.csv --suggest like.yaml"],
        files=_PLAYED,
        written=["like.yaml"],
    ),
    "simulate/refused": Case(
        lines=[
            "simulate demo --trace none.csv",
            "simulate demo --trace torn.csv",
            "simulate broken --trace few.csv",
            "simulate demo",
            "simulate demo --trace few.csv --failed-boots 2",
            "simulate demo --trace few.csv --queues x=train",
            "simulate demo --trace few.csv --service x",
            "simulate onprem --trace few.csv",
        ],
        files=_PLAYED,
    ),
    "simulate/service": Case(
        lines=[
            "simulate acme --service embedder-small --trace requests.csv",
            "simulate acme --service embedder-small --trace requests.csv --full",
            "simulate acme --service embedder-small --describe requests.csv",
            "simulate acme --service strange --trace requests.csv",
        ],
        json=[
            "simulate acme --service embedder-small --trace requests.csv --json - --report page.html",
            "simulate acme --service embedder-small --describe requests.csv --json -",
        ],
        stage=_TIMED,
        files=SERVED,
        written=["page.html"],
    ),
    "simulate/exported": Case(
        lines=[
            "simulate --describe sacct.csv",
            "simulate --describe sacct.csv --timezone Asia/Tokyo --from 2026-06-02 --days 1",
            "simulate --describe flower.csv",
            "simulate --describe rq.csv",
            "simulate --describe ms.csv --columns submitted_at=born",
            "simulate demo --trace sacct.csv --queues gpu=train,cpu=prep --strategy fixed-flexible --full",
        ],
        files={**_PLAYED, **_EXPORTED},
        stage=_TIMED,
        widths=(80,),
    ),
    "simulate/unreadable": Case(
        lines=[
            *(f"simulate --describe {name}" for name in _TORN),
            "simulate --describe times.csv --timezone Europe/Berlin",
            "simulate --describe sacct.csv --from 2030-01-01",
            "simulate --describe sacct.csv --days 1 --columns strange=Note",
            "simulate demo --trace silent.csv",
            "simulate lean --trace few.csv",
            "simulate acme --trace few.csv --max-job 1s",
            "simulate acme --trace few.csv --queues q=strange",
            "simulate served --service embedder-small --trace requests.csv --queue strange",
            "simulate served --service ranker --trace requests.csv",
            "simulate served --service embedder-small --trace few.csv",
            "simulate plain --service embedder --trace requests.csv",
        ],
        files={
            **_SWEPT,
            **_TORN,
            **_EXPORTED,
            "requests.csv": _REQUESTS,
            "stacks/Pulumi.served.yaml": SERVED["stacks/Pulumi.acme.yaml"],
            "stacks/Pulumi.plain.yaml": shortest(),
            "stacks/Pulumi.lean.yaml": shortest(more=_ONLY_SERVED).replace(_POOLS, ""),
        },
        widths=(80,),
    ),
    "sweep/refused": Case(
        lines=[
            f"sweep {line} --results out --processes 1"
            for line in (
                "acme --trace few.csv --vary max=2,3 --vary max=1,4",
                "acme bolt --trace few.csv --vary max=2,2",
                "acme --trace few.csv --vary max --vary strange=1 --vary costs.tags.x=1 --vary stranger.a=1,2",
                "acme --trace few.csv --vary workers.strange.max=1,2",
                "acme --trace few.csv --vary 'max=[1'",
                "acme --trace few.csv --vary services.a.min=1,2",
                "acme acme-two --trace few.csv --trace other/few.csv --vary max=1,2",
                f"acme --trace few.csv --vary max=1,2 --objective '{_STRANGE}'",
                "acme --trace few.csv --vary max=1,2 --seed x",
                "acme --trace few.csv --vary max=0,99",
            )
        ]
        + ["sweep acme --trace few.csv --vary max=1,2 --results ftp://x/y --processes 1"],
        files={
            **_SWEPT,
            "other/few.csv": _FEW,
            "stacks/Pulumi.acme-two.yaml": STACK.format(customer="acme", cpu=4),
        },
        stage=_SWEEPING,
        widths=(80,),
    ),
    "sweep/resumed": Case(
        lines=[
            f"sweep acme --trace few.csv --vary max=1,2 {SWEEP}",
            f"sweep acme --trace few.csv --vary max=1,2 {SWEEP}",
            f"sweep acme --trace few.csv --vary max=1,2,3 --resume {SWEEP}",
            f"sweep acme --trace few.csv --vary max=1,2 --seed 0-1 --objective '{_NEVER}' --resume {SWEEP}",
        ],
        files=_SWEPT,
        stage=_SWEEPING,
        widths=(80,),
    ),
    "sweep/best": Case(
        lines=[f"sweep acme bolt --trace few.csv --vary max=2,3 --seed 0-1 {SWEEP}"],
        json=[f"sweep acme bolt --trace few.csv --vary max=2,3 {SWEEP} --json - --report page.html"],
        files=_SWEPT,
        stage=_SWEEPING,
        written=["page.html"],
    ),
    "sweep/notes": Case(
        lines=[
            f"sweep far --trace much.csv --vary max=1,3 {SWEEP}",
            "sweep acme --trace few.csv --vary 'workers.train.memory=8Gi,\"1Gi\"' --results other --processes 1",
            f"sweep acme broken --trace few.csv --vary customer=a,b --objective dollars {SWEEP}",
        ],
        files=_SWEPT,
        stage=_SWEEPING,
    ),
    "advise/savings": Case(
        lines=[
            "advise savings demo --usage usage.csv",
            "advise savings demo --usage usage.csv --beyond-floor",
            "advise savings demo --trace jobs.csv --days 1",
            "advise savings demo",
            "advise savings onprem --usage usage.csv",
        ],
        json=["advise savings demo --usage usage.csv --json -"],
        files={**_PLAYED, "usage.csv": _USAGE},
    ),
    "advise/refused": Case(
        lines=[
            *(f"advise savings demo --usage {name}" for name in (*_USED_BADLY, "missing.csv")),
            "advise savings unpriced --usage types.csv",
            "advise floors acme --trace few.csv",
            "advise floors acme --trace requests.csv",
            "advise floors served --service embedder-small --trace few.csv",
            "advise floors served --service ranker --trace requests.csv",
            "advise targets served fixed --trace requests.csv",
            "advise targets served embedder --trace requests.csv",
            "advise variants served ranker --trace requests.csv",
            "advise variants served strange --trace requests.csv",
            "advise variants served embedder --trace requests.csv --service-time small=1s",
            "advise apply acme none.json",
            "advise apply acme few.csv",
            "simulate --describe large.csv --suggest new.yaml",
            "simulate --describe unsized.csv --suggest new.yaml",
            "advise sizes served",
        ],
        files={
            **_PLAYED,
            **_SWEPT,
            **_USED_BADLY,
            "large.csv": _LARGE,
            "unsized.csv": _UNSIZED,
            "requests.csv": _REQUESTS,
            "stacks/Pulumi.served.yaml": SERVED["stacks/Pulumi.acme.yaml"],
        },
        stage=cluster({}),
        widths=(80,),
    ),
    "advise/mornings": Case(
        lines=["advise floors acme --trace mornings.csv --spend 50"],
        json=["advise floors acme --trace mornings.csv --spend 50 --json -"],
        files={
            "mornings.csv": _MORNINGS,
            "stacks/Pulumi.acme.yaml": _SWEPT["stacks/Pulumi.acme.yaml"].replace("max: 3", "max: 12"),
        },
        stage=_ONE_PROCESS,
        widths=(80,),
    ),
    "advise/floors": Case(
        lines=["advise floors acme --trace weeks.csv", "advise floors acme --trace few.csv --spend 0"],
        json=["advise floors acme --trace weeks.csv --json -"],
        files={**_SWEPT, "weeks.csv": _WEEKS},
        stage=_ONE_PROCESS,
    ),
    "advise/targets": Case(
        lines=[
            "advise targets acme embedder-small --trace requests.csv",
            "advise targets acme strange --trace requests.csv",
            "advise targets plain embedder --trace requests.csv",
            "advise targets acme embedder-small",
        ],
        json=["advise targets acme embedder-small --trace requests.csv --json - --patch change.patch"],
        files=SERVED,
        stage=cluster({}),
        written=["change.patch"],
    ),
    "advise/variants": Case(
        lines=[
            "advise variants acme embedder --trace requests.csv --service-time large=200ms --share large=20%",
            "advise variants acme embedder --prometheus http://recorded",
            "advise variants acme embedder --trace requests.csv --share large=120%",
        ],
        json=["advise variants acme embedder --prometheus http://recorded --json -"],
        files=SERVED,
        stage=_RECORDED_REQUESTS,
    ),
    "advise/sizes": Case(
        lines=["advise sizes acme", "advise sizes acme --since 3d"],
        json=["advise sizes acme --json sizes.json --patch sizes.patch", "advise apply acme sizes.json"],
        files=_SIZED,
        stage=cluster(VPAS, OF_SIZES),
        written=["sizes.json", "sizes.patch"],
    ),
    "prices/shown": Case(
        lines=["prices show", "prices show ap-southeast-7", "prices show eu-west-9", "prices show Ireland"]
    ),
    "prices/updated": Case(
        lines=[f"prices update --region {REGION} --output out"], stage=_aws, written=["out"], widths=(80,)
    ),
}
