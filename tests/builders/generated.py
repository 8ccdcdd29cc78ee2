"""Legal stack files from a seed, as text: what docs/reference/stack-file.md offers, in unlikely combinations.

Text and not settings, so that reading the file, checking it and rendering it are all part of what is tested. Pods ask
for at most half of what the smallest node of their kind has by name, so that each fits whatever else a node carries.
The names are chosen to hurt: YAML 1.1 reads some as truth, others as numbers.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from random import Random
from typing import Any, TypeVar

import yaml

from ebbtide.settings.sections.zones import usual_letters
from tests.builders.pod_sections import fitted, sound_section

T = TypeVar("T")

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
TIMEZONES = ("America/New_York", "Europe/Berlin", "Asia/Kathmandu", "Pacific/Chatham", "Australia/Lord_Howe", "UTC")
REGIONS = ("us-east-1", "eu-central-1", "ap-southeast-2", "ap-east-2")  # the last one has no prices
SHAPES = {  # vCPU, GiB and GPUs, and the types that have them
    (4, 16, 0): ("m7i.xlarge", "m6i.xlarge", "m6a.xlarge", "m7i-flex.xlarge", "t3.xlarge"),
    (8, 32, 0): ("m7i.2xlarge", "m6i.2xlarge", "m6a.2xlarge", "m7i-flex.2xlarge", "t3.2xlarge"),
    (16, 64, 0): ("m7i.4xlarge", "m6i.4xlarge"),
    (8, 16, 0): ("c7i.2xlarge", "c6i.2xlarge"),
    (4, 16, 1): ("g5.xlarge", "g6.xlarge", "g4dn.xlarge"),
    (8, 32, 1): ("g5.2xlarge", "g6.2xlarge"),
    (48, 192, 4): ("g5.12xlarge", "g6.12xlarge"),
}
POOLS = ("train", "on", "null", "e1", "true", "prep-2", "w" + "x" * 39, "gpu", "night-shift", "y")
SERVICES = ("api", "off", "no", "hub", "e5", "s" + "-0" * 19 + "z", "flexible", "registry", "n", "web-1")
QUEUES = (
    "train",
    "mail:high",
    "emails/slow",
    "{odd}",
    "100%",
    "ünïcode",
    "~",
    "1e3",
    "no",
    "a'b\"c",
    "$HOME",
    "x" * 200,
)
JOBS = ("migrate", "e3", "yes", "nightly", "j" + "-x" * 19, "backup")
RAY = ("flow", "on", "r" * 24, "e6")
MODELS = ("embed", "e7", "infer", "yes-1", "m" + "x" * 20)
SCHEDULES = ("30 2 * * *", "*/20 8-17 * * mon-fri", "0 0 1 * *", "15,45 */6 1-15/2 * 0", "5 4 29 2 *")
IMAGES = (
    "registry.example.com/ml/train:1.4.2",
    "train",
    "localhost:5000/a/b_c/d.e:latest",
    "registry.example.com/ml/api@sha256:" + "0123456789abcdef" * 4,
)
TAGS = {"cost-center": "research", "Team Name": "Ørsted + co", "on": "yes", "a:b/c@d=e": "", "1": "22:00"}
ASSUMPTIONS = ("on-demand", "compute-1y-no-upfront", "compute-3y-no-upfront", "ec2-1y-no-upfront", "ec2-3y-no-upfront")


def stack_text(seed: int) -> str:
    """The same file for the same seed."""
    draft = _Draft(
        Random(seed), more=Random(f"{seed} pods"), ray=Random(f"{seed} ray"), serving=Random(f"{seed} services")
    )
    config = draft.config()
    return text_of(config, flow=draft.one_of((None, False)))


def text_of(config: Mapping[str, Any], *, flow: bool | None = False) -> str:
    """A stack file with that config."""
    dumped = yaml.dump(
        {"config": config}, Dumper=_Operator, sort_keys=False, allow_unicode=True, width=4096, default_flow_style=flow
    )
    return str(dumped)


class _Operator(yaml.SafeDumper):
    """Writes as a careful operator does: plain where both YAMLs agree, and quoted otherwise."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


_PLAIN = re.compile(r"(?!(?i:true|false|null|yes|off)$)[A-Za-z]{3,}[\w/.-]*|\d+[smh]")


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if _PLAIN.fullmatch(text) else '"')


_Operator.add_representer(str, _text)


@dataclass
class _Draft:
    random: Random
    groups: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    kinds: dict[str, list[str]] = field(default_factory=dict[str, list[str]])  # of node group, to the groups' names
    shapes: dict[str, tuple[int, int, int]] = field(default_factory=dict[str, tuple[int, int, int]])
    gpus: bool = False
    ray: Random = field(default_factory=Random)
    serving: Random = field(default_factory=Random)
    more: Random = field(default_factory=Random)  # what pods have besides a size: drawn apart, the rest stays as it was

    def config(self) -> dict[str, Any]:
        zones = self.some("abcdefgh", least=2, most=4)
        self._node_groups(len(zones))
        workers = {name: self._pool(queues) for name, queues in self._queues().items()}
        workloads = {name: self._workload() for name in self.some(SERVICES, most=6)}
        fixed = sum(each.get("replicas", 1) for each in workloads.values() if each["category"] == "fixed")
        ray, services = self._ray_clusters(), self._services()
        if services and self.serving.random() < 0.2:
            workers = {}
        variants = [it for each in services.values() for it in each.get("variants", {"": each}).values()]
        fixed += sum(it.get("category") == "fixed" for it in variants)
        for name in self.kinds["fixed"]:
            self.groups[name]["max"] = len(zones) + fixed + len(ray)  # room for each on a node of its own
        for pool in workers.values():
            if ray and self.ray.random() < 0.5:
                pool["ray"] = self.ray.choice(list(ray))
        for pod in workers.values():
            self._fill(pod, serves=False)
        for pod in workloads.values():
            self._fill(pod, claims=pod.get("kind") == "stateful-set")
        region = self.one_of(REGIONS)
        there = usual_letters(region)
        zones = [*(zone for zone in zones if zone in there), *(it for it in there if it not in zones)][: len(zones)]
        whole = {
            "aws:region": region,
            "ebbtide:customer": self.one_of(("acme", "on", "c" * 24, "e1", "a-1")),
            "ebbtide:businessHours": self._hours(workers),
            "ebbtide:cluster": {"zones": zones, **self.maybe(version=self.one_of(("1.33", "1.34", "1.35", "1.36")))},
            "ebbtide:nodeGroups": self.groups,
            **({"ebbtide:workers": workers} if workers else {}),
            **({"ebbtide:workloads": workloads} if workloads else {}),
            **self._jobs(workers),
            **({"ebbtide:ray": ray} if ray else {}),
            **({"ebbtide:services": services, **self._serving()} if services else {}),
            **self.maybe(**{"ebbtide:redisPassword": {"secure": "AAABBB"}}),
            **self.maybe(**{"ebbtide:redis": self._redis()}),
            **self.maybe(**{"ebbtide:controller": self._controller()}),
            **self.maybe(**{"ebbtide:costs": self._costs()}),
        }
        return {key: whole[key] for key in self.shuffled(whole)}

    # --- choosing -------------------------------------------------------------------------------------------------

    def one_of(self, choices: Sequence[T]) -> T:
        return self.random.choice(choices)

    def some(self, choices: Sequence[T], *, least: int = 0, most: int) -> list[T]:
        return self.random.sample(choices, self.random.randint(least, min(most, len(choices))))

    def chance(self, likely: float = 0.5) -> bool:
        return self.random.random() < likely

    def maybe(self, **values: Any) -> dict[str, Any]:
        """Each with even odds."""
        return {key: value for key, value in values.items() if self.chance()}

    def shuffled(self, choices: Mapping[str, object]) -> list[str]:
        return self.random.sample(list(choices), len(choices))

    def lasting(self, least: int, most: int) -> str:
        """A duration between so many minutes, in some unit."""
        minutes = self.random.randint(least, most)
        return self.one_of((f"{minutes}m", f"{60 * minutes}s", *([f"{minutes // 60}h"] if minutes >= 60 else [])))

    def clock(self, first: int, last: int) -> str:
        """A time of day from one full hour to just before another."""
        return f"{self.random.randrange(first, last):02}:{self.random.randrange(60):02}"

    # --- nodes ----------------------------------------------------------------------------------------------------

    def _node_groups(self, zones: int) -> None:
        """A fixed group always, so that its size can be fitted; the others as it comes."""
        wanted = [("fixed", "fixed"), *self.some([("flexible", "flexible"), ("big", "flexible")], most=2)]
        self.gpus = self.chance()
        if self.gpus:
            wanted += self.some([("gpu", "gpu"), ("gpu-wide", "gpu")], least=1, most=2)
        wanted += self.some([("spot", "spot"), ("cheap", "spot")], most=2)
        for name, kind in wanted:
            fewest = 4 if kind == "spot" else 1
            shapes = [shape for shape in SHAPES if (shape[2] > 0) is (kind == "gpu") and len(SHAPES[shape]) >= fewest]
            shape = self.one_of(shapes)
            most = self.random.randint(zones, 40)
            least = {"min": self.random.randint(1, zones)} if kind == "fixed" else self.maybe(min=0, max=most)
            types = {"instanceTypes": self.some(SHAPES[shape], least=fewest, most=max(fewest, 3))}
            more = self.maybe(diskSize=self.random.randint(20, 500), priority=self.random.randint(0, 99))
            named = {"kind": kind} if name != kind or self.chance() else {}
            self.groups[name] = {**named, **types, **least, **more}
            self.shapes[name] = shape
            self.kinds.setdefault(kind, []).append(name)

    def _size(self, group: str) -> dict[str, Any]:
        """Half a node at most; without a group of that kind there will be the default one, which is larger."""
        cores, memory, gpus = self.shapes.get(group, (4, 16, 0))
        millicores = 125 * self.random.randint(1, 4 * cores)
        cpu: Any = self.one_of((f"{millicores}m", millicores / 1000, str(millicores / 1000)))
        half = memory * 512  # MiB
        mebibytes = self.random.randint(64, half)
        size: dict[str, Any] = {
            "cpu": cpu,
            "memory": self.one_of((f"{mebibytes}Mi", f"{max(1, half // 2048)}Gi", "128M")),
        }
        return {**size, "gpu": self.random.randint(1, gpus)} if gpus else size

    # --- what runs ------------------------------------------------------------------------------------------------

    def _queues(self) -> dict[str, list[str]]:
        """Of each pool: one, or several, and none of two pools."""
        names, queues = self.some(POOLS, least=1, most=5), self.random.sample(QUEUES, len(QUEUES))
        return {name: [queues.pop() for _ in range(self.one_of((1, 1, 1, 2)))] for name in names}

    def _pool(self, queues: list[str]) -> dict[str, Any]:
        kind = "gpu" if self.gpus and self.chance() else self.one_of(("flexible", "flexible", "spot"))
        candidates = self.kinds.get(kind) or self.kinds.get("flexible") or [""]
        group, most = self.one_of(candidates), self.random.randint(1, 40)
        on_spot = group in self.kinds.get("spot", [])
        named = {"nodeGroup": group} if group and (on_spot or self.chance()) else {}
        source = self.one_of(({}, {"kind": "rq"}, {"kind": "celery", "acks": "late"}, {"kind": "list"}))
        command = {"command": ["celery", "-A", "app", "worker", "--on", "~", "1e3"]}
        pace: tuple[dict[str, Any], ...] = (
            {},
            {"jobsPerWorker": 3},
            {"drainWithin": self.lasting(1, 90), "jobTakes": self.lasting(1, 90)},
        )
        morning = {"workers": self.random.randint(1, most), "for": self.lasting(1, 600)}
        return {
            "source": {**source, "queues": queues},
            "image": self.one_of(IMAGES),
            "max": most,
            "longestJob": self.lasting(1, 60 if on_spot else 10_080),
            **self._size(group),
            **named,
            **(command if self.chance(0.3) else {}),
            **self.one_of(pace),
            **self.maybe(min=self.random.randint(0, most), growthPerMinute=5, stabilizationWindow=self.lasting(0, 10)),
            **self.maybe(morning=morning, safeStop=self.chance()),
        }

    def _workload(self) -> dict[str, Any]:
        category = self.one_of(("fixed", "flexible"))
        kind = "gpu" if self.gpus and self.chance(0.3) else category
        owner = {} if category == "fixed" else self.maybe(replicasOwner="hpa")
        return {
            "category": category,
            "image": self.one_of(IMAGES),
            **self._size(self.one_of(self.kinds.get(kind) or [""])),
            **owner,
            **self.maybe(replicas=self.random.randint(1, 6), kind=self.one_of(("deployment", "stateful-set"))),
        }

    # --- what pods have besides a size ------------------------------------------------------------------------------

    def _fill(self, pod: dict[str, Any], *, serves: bool = True, claims: bool = False) -> None:
        """Two pods of five get keys of the pod section, and one of five a fragment; what they have wins."""
        if self.more.random() < 0.4:
            section = fitted(sound_section(self.more.randrange(10**6)), serves=serves, claims=claims)
            pod.update({key: value for key, value in section.items() if key not in pod})
        if claims and self.more.random() < 0.5 and "volumes" not in pod:
            pod["volumes"] = {"data": {"perPod": "10Gi", "at": "/data"}}
        if self.more.random() < 0.2:
            pod["pod"] = {"initContainers": [self._init_container() for _ in range(self.more.randint(1, 2))]}
            for number, container in enumerate(pod["pod"]["initContainers"]):
                container["name"] = f"first-{number}"

    def _init_container(self) -> dict[str, Any]:
        """Every other one is a sidecar, whose requests count beside those of the main container."""
        requests = {"cpu": f"{self.more.randint(1, 10)}0m", "memory": "32Mi"}
        sidecar = {"restartPolicy": "Always"} if self.more.random() < 0.5 else {"command": ["true"]}
        return {"name": "", "image": self.more.choice(IMAGES), "resources": {"requests": requests}, **sidecar}

    def _jobs(self, taken: Mapping[str, Any]) -> dict[str, Any]:
        """Jobs in one file of three, and cron jobs in nearly every other."""
        random, self.random = self.random, self.more
        names = [name for name in self.some(JOBS, most=4) if name not in taken]
        once = {name: self._job() for name in names[::2]} if self.chance(0.4) else {}
        by_clock = {name: {**self._job(), **self._clock()} for name in names[1::2]} if self.chance(0.7) else {}
        self.random = random
        return {
            **({"ebbtide:jobs": once} if once else {}),
            **({"ebbtide:cronJobs": by_clock} if by_clock else {}),
        }

    def _ray_clusters(self) -> dict[str, Any]:
        """In one file of three."""
        names = self.ray.sample(RAY, self.ray.choice((0, 0, 1, 2)) if self.ray.random() < 0.5 else 0)
        return {name: self._ray_cluster() for name in names}

    def _ray_cluster(self) -> dict[str, Any]:
        groups = self.ray.sample(("cpu", "e5", "g" * 24), self.ray.randint(1, 3))
        sleep = {"when": self.ray.choice(("never", "idle", "outsideBusinessHours")), "after": "90m", "wake": ["queue"]}
        return {
            "version": "2.60.0",
            "image": self.ray.choice(("registry.example.com/ml/ray:2.60.0-py311", "ray", "localhost:5000/r:latest")),
            "head": self._ray_pod({"cpu": 1, "memory": "1Gi"}),
            "groups": {name: self._ray_group() for name in groups},
            "longestTask": self.ray.choice(("90s", "30m", "12h")),
            **({"sleep": sleep} if self.ray.random() < 0.5 else {}),
        }

    def _ray_group(self) -> dict[str, Any]:
        kind = self.ray.choice([kind for kind in ("flexible", "gpu") if kind == "flexible" or self.gpus])
        group = self.ray.choice(self.kinds.get(kind) or [""])
        cores, memory, gpus = self.shapes.get(group, (4, 16, 0))
        most = self.ray.randint(1, 40)
        size = {"cpu": self.ray.randint(1, max(1, cores // 2)), "memory": f"{self.ray.randint(1, memory // 2)}Gi"}
        named = {"nodeGroup": group} if group and self.ray.random() < 0.5 else {}
        gpu = {"gpu": self.ray.randint(1, gpus)} if gpus else {}
        idle = {"idleAfter": "5m", "min": self.ray.randint(0, most)} if self.ray.random() < 0.3 else {}
        return self._ray_pod({"max": most, **size, **gpu, **named, **idle})

    def _ray_pod(self, pod: dict[str, Any]) -> dict[str, Any]:
        if self.ray.random() < 0.3:
            section = fitted(sound_section(self.ray.randrange(10**6)), serves=False)
            kept = ("env", "envFrom", "labels", "annotations", "user", "aws", "volumes", "writableRoot")
            pod.update({key: section[key] for key in kept if key in section})
        return pod

    def _services(self) -> dict[str, Any]:
        """In one file of four."""
        names = self.serving.sample(MODELS, self.serving.randint(1, 2)) if self.serving.random() < 0.25 else []
        return {name: self._service(f"/{number}") for number, name in enumerate(names)}

    def _serving(self) -> dict[str, Any]:
        given = self.serving.choice(({}, {"public": True}, {"proxies": 3}, {"sources": ["10.0.0.0/8"]}))
        return {"ebbtide:monitoring": {"prometheus": "bundled"}, **({"ebbtide:serving": given} if given else {})}

    def _service(self, path: str) -> dict[str, Any]:
        """Called inside the cluster, or by a route: then with one variant, or with several by header or by weight."""
        seconds = self.serving.randint(1, 350)
        service: dict[str, Any] = {
            "ports": {"http": 8000, "metrics": 9100},
            "port": "http",
            "probes": {"readiness": {"http": "/healthz", "port": "http"}},
            "longestRequest": f"{seconds}s",
            **({"drains": False} if self.serving.random() < 0.2 else {}),
            **({"maxInFlight": self.serving.randint(1, 500)} if self.serving.random() < 0.3 else {}),
        }
        if self.serving.random() < 0.3:
            return {**service, **self._variant("flexible", routed=False)}
        route = {"host": "models.example.com", "path": path, **self.serving.choice(({}, {"model": "on"}))}
        kinds = self.serving.sample(["flexible", "gpu"] if self.gpus else ["flexible"], k=1 + self.gpus)
        variants = {f"v{number}": self._variant(kind, routed=True) for number, kind in enumerate(kinds)}
        apart: tuple[dict[str, Any], ...] = ({"when": {"header": "x-size: 1e3"}}, {"when": {"model": "null"}})
        if len(variants) == 2 and self.serving.random() < 0.5:
            variants["v0"]["weight"], variants["v1"]["weight"] = 90, 10
        elif len(variants) == 2:
            variants["v1"] |= self.serving.choice(apart)
        return {**service, "route": route, "variants": variants}

    def _variant(self, kind: str, *, routed: bool) -> dict[str, Any]:
        stays = self.serving.random() < 0.25
        home = "fixed" if stays and kind == "flexible" else kind
        cores, memory, gpus = self.shapes.get(self.serving.choice(self.kinds.get(home) or [""]), (4, 16, 0))
        least = self.serving.randint(1, 3)
        metrics = self.serving.choice(({"cpu": "70%"}, {"inFlight": 3}) if routed else ({"cpu": "70%"},))
        grows = {"scale": {"metrics": metrics, "min": least, "max": least + self.serving.randint(1, 20)}}
        number = {"scale": {"min": least, "max": least}}
        return {
            "image": self.serving.choice(IMAGES),
            "cpu": self.serving.randint(1, max(1, cores // 2)),
            "memory": f"{self.serving.randint(1, memory // 2)}Gi",
            **({"gpu": self.serving.randint(1, gpus)} if gpus else {}),
            **({"category": "fixed"} if stays else self.serving.choice((grows, grows, number))),
        }

    def _job(self) -> dict[str, Any]:
        kind = "gpu" if self.gpus and self.chance(0.2) else "flexible"
        pods, minutes = self.random.randint(1, 4), self.random.randint(5, 600)
        job = {
            "image": self.one_of(IMAGES),
            "longestRun": f"{minutes}m",
            **self._size(self.one_of(self.kinds.get(kind) or [""])),
            **self.maybe(runTakes=f"{self.random.randint(1, minutes)}m", retries=self.random.randint(0, 3)),
            **self.maybe(completions=pods),
        }
        if "completions" in job and self.chance():
            job["parallelism"] = self.random.randint(1, pods)
        self._fill(job, serves=False)
        return job

    def _clock(self) -> dict[str, Any]:
        concurrency = self.one_of(("forbid", "allow", "replace"))
        more = self.maybe(timezone=self.one_of(TIMEZONES), concurrency=concurrency, startWithin=self.lasting(1, 60))
        return {"schedule": self.one_of(SCHEDULES), **more, **({"suspended": True} if self.chance(0.1) else {})}

    # --- the rest -------------------------------------------------------------------------------------------------

    def _hours(self, workers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        plans = [
            {"pool": name, "at": self.clock(0, 24), "for": self.lasting(1, 1440), "workers": pool["max"]}
            for name, pool in workers.items()
            if self.chance(0.3)
        ]
        where = self.one_of(({}, {"country": "DE"}, {"country": "DE", "subdivision": "BE"}, {"country": "US"}))
        days = [f"2027-{month:02}-{day:02}" for month in (1, 5, 10, 12) for day in (1, 3, 24)]
        odd = self.some(days, most=6)
        holidays = {**where, **self.maybe(closed=odd[:3]), **self.maybe(open=odd[3:])}
        hours: dict[str, Any] = {"timezone": self.one_of(TIMEZONES), "week": self._week()}
        return {**hours, **self.maybe(holidays=holidays), **({"overnight": plans} if plans else {})}

    def _week(self) -> dict[str, Any]:
        """Days that share their hours make one key: a range, or several with commas."""
        if self.chance(0.05):
            return {"mon-sun": "00:00-24:00"}
        choices = [self._day() for _ in range(2)]
        chosen = [self.one_of((*choices, None)) for _ in DAYS]
        if not any(chosen):
            chosen[0] = choices[0]
        week: dict[str, Any] = {}
        start = 0
        for hours, run in groupby(chosen):
            end = start + len(list(run))
            if hours is not None:
                last = DAYS[end - 1]
                key = DAYS[start] if end == start + 1 else f"{DAYS[start]}-{last}"
                week[key if self.chance(0.8) else ", ".join(DAYS[start:end])] = hours
            start = end
        return week

    def _day(self) -> Any:
        """By day between six and ten; a night shift ends before six."""
        parts = self.one_of(
            (
                [f"{self.clock(6, 10)}-{self.clock(12, 22)}"],
                [f"{self.clock(6, 9)}-{self.clock(10, 12)}", f"{self.clock(12, 14)}-{self.clock(15, 22)}"],
                [f"{self.clock(6, 10)}-24:00"],
                [f"{self.clock(6, 9)}-{self.clock(10, 21)}", f"{self.clock(22, 24)}-{self.clock(0, 6)}+1"],
            )
        )
        return parts if len(parts) > 1 and self.chance() else ", ".join(parts)

    def _redis(self) -> dict[str, Any]:
        urls = ("redis://queues.example.com", "rediss://queues.example.com:6380/3", "redis://10.0.0.7:6379/0")
        return self.one_of(({"kind": "in-cluster"}, *({"kind": "url", "url": url} for url in urls)))

    def _controller(self) -> dict[str, Any]:
        durations = {"closingGuard": self.lasting(1, 60), "nodeStartup": self.lasting(1, 30)}
        return self.maybe(replicas=self.one_of((1, 2)), image=self.one_of(IMAGES), **durations)

    def _costs(self) -> dict[str, Any]:
        tags = {key: TAGS[key] for key in self.some(list(TAGS), most=5)}
        hours = {name: round(self.random.uniform(0, 2000), 1) for name in self.some(list(self.groups), most=3)}
        return self.maybe(tags=tags, expectedNodeHours=hours, pricingAssumption=self.one_of(ASSUMPTIONS))
