"""A made-up month of a stack whose true cost is known: lives of nodes, prices, and what Prometheus sees of them.

The truth is an integral over the lives; the samples never enter it.
"""

import random
import subprocess
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from ebbtide.lab.ledger.lives import NodeKey, Sightings
from ebbtide.lab.ledger.month import Month
from ebbtide.lab.ledger.paid import Paid, paid_of
from ebbtide.lab.ledger.rates import rates_of
from ebbtide.lab.ledger.reading import RecordedMonth, Steps
from ebbtide.monitoring.recorded import Recorded
from ebbtide.prices import on_demand, spot_typical
from ebbtide.settings import StackSettings
from tests.builders.monitoring.day import GIB, PROMTOOL
from tests.builders.settings import shortest

REGION = "us-east-1"
FIXED, FLEXIBLE = "m7i.2xlarge", "m7i.4xlarge"
GROUPS = """
aws:region: us-east-1
ebbtide:nodeGroups:
  fixed: { instanceTypes: [m7i.2xlarge], min: 3, max: 4 }
  flexible: { instanceTypes: [m7i.4xlarge], max: 24 }
  spot: { kind: spot, instanceTypes: [m7i.4xlarge, m6a.4xlarge, m6i.4xlarge, m7i-flex.4xlarge], max: 8 }
ebbtide:workloads:
  api: { category: flexible, image: "example.com/api:1", replicas: 3, cpu: 2, memory: 8Gi, sleep: {sleep} }
"""
NAP = ((20.0, 1.0), (30.0, 0.0))
FARGATE, FARGATE_HOURS = "fargate-ip-10-3-0-0", 30.0
_PHASE = 17.0
_SLOW = 4  # every fourth sample is enough for what changes rarely


def stack(
    *, more: str = "", costs: str = "before: { fixed: 3, flexible: 12 }", sleep: str = "{ when: outsideBusinessHours }"
) -> str:
    groups = GROUPS.replace("{sleep}", sleep)
    text = shortest(more=f"{groups}ebbtide:costs: {{ {costs} }}\n{more}")
    return text.replace("max: 4,", "max: 60,")


@dataclass(frozen=True, kw_only=True)
class Run:
    """One node, from its creation to its end: seconds since 1970."""

    key: NodeKey
    created: float
    end: float


@dataclass(frozen=True, kw_only=True)
class KnownMonth:
    """`holes` are hours from the month's begin in which nothing was recorded.

    What real months have: each node's samples lack labels for `bare` seconds, a node of Fargate never has them, another
    type has the name of an earlier node, and `replicas` of Prometheus are not deduplicated. In `bursts` flexible nodes,
    as many as the third number, run from one hour of the month to another. `max_nodes` are recorded changes of groups'
    max, by hour.
    """

    month: Month
    holes: Sequence[tuple[float, float]] = ()
    seed: int = 7
    scale: float = 1.0  # of the number of nodes
    clusters: int = 1
    every: float = 60.0  # seconds between two samples
    bare: float = 0.0
    fargate: bool = False
    renamed: bool = False
    replicas: int = 1
    bursts: Sequence[tuple[float, float, int]] = ()
    max_nodes: Mapping[str, Steps] = field(default_factory=dict[str, Steps])
    spot_factor: float = 1.0  # of the true spot price over the typical one
    labelled_from: float | None = None  # hours from the begin at which pods' label `team` was first recorded

    @cached_property
    def begin(self) -> float:
        return self.month.begin.timestamp()

    @cached_property
    def end(self) -> float:
        return self.month.end.timestamp()

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        return tuple(self._runs())

    @cached_property
    def prices(self) -> Mapping[str, Steps]:
        """Two changes within the month, each of one type."""
        fixed, flexible = on_demand(REGION, FIXED), on_demand(REGION, FLEXIBLE)
        return {
            FIXED: ((0.0, fixed), (self._at(20, 9.5), fixed * 1.1)),
            FLEXIBLE: ((0.0, flexible), (self._at(9, 14.25), flexible * 0.9)),
        }

    @property
    def naps(self) -> Steps:
        """The sleep of `api`, from eight in the evening to six; on the third night an operator kept it awake."""
        days = [day for day in range(round(self.month.hours / 24) - 1) if day != 2]
        return ((self.begin, 0.0), *((self._at(day, hour), value) for day in days for hour, value in NAP))

    def usd(self, *, listed: bool = False) -> float:
        """The true dollars of the month without boots and Fargate."""
        return sum(self._usd(run, listed=listed) for run in self.runs if run.key.instance_type)

    def usd_of(self, group: str) -> float:
        return sum(self._usd(run, listed=False) for run in self.runs if run.key.group == group)

    def hourly(self) -> Iterator[tuple[Run, int, float, float, float]]:
        """Yield each hour of the month in which a node ran: its share of the hour, its dollars, and those listed."""
        for run in (run for run in self.runs if run.key.instance_type):
            begin, end = max(run.created, self.begin), min(run.end, self.end)
            hours = range(int((begin - self.begin) // 3600), int((end - self.begin - 1) // 3600) + 1)
            for hour in hours if end > begin else ():
                edges = self.begin + hour * 3600, self.begin + (hour + 1) * 3600
                part = replace(run, created=max(begin, edges[0]), end=min(end, edges[1]))
                share = (part.end - part.created) / 3600
                yield run, hour, share, self._usd(part, listed=False), self._usd(part, listed=True)

    def recorded_hours(self, group: str) -> float:
        """Node-hours outside the holes."""
        edges = [self.begin + edge * 3600 for hole in self.holes for edge in hole]
        spans = list(zip([self.begin, *edges[1::2]], [*edges[::2], self.end], strict=True))
        lives = [(run.created, run.end) for run in self.runs if run.key.group == group]
        return sum(max(0.0, min(end, last) - max(born, first)) / 3600 for born, end in lives for first, last in spans)

    def sightings(self) -> Sightings:
        looks = self._looks()
        seen: dict[NodeKey, list[float]] = {}
        for run in self.runs:
            for key, there in self._labelled(run, looks):
                seen.setdefault(key, []).extend(there)
        created: dict[str, list[float]] = {}
        for run in self.runs:
            created.setdefault(run.key.node, []).append(run.created)
        return Sightings(looks=looks, seen=seen, created=created)

    def recording(self) -> RecordedMonth:
        """The reader's result: of workers, only the changes."""
        by_value = groupby(((at, float(value)) for at, value in self._wanted() if not self._lost(at)), itemgetter(1))
        wanted = tuple(next(steps) for _, steps in by_value)
        hours = range(round(self.month.hours))
        shares = dict.fromkeys(hours, 0.5)
        return RecordedMonth(
            source="a made-up month",
            sightings=self.sightings(),
            prices=self.prices,
            wanted={"train": wanted},
            asleep={"deployment ebbtide/api": self.naps},
            requests={("flexible", "worker", "train"): shares, ("fixed", "fixed", "hub"): shares},
            most_nodes={
                group: tuple((self.begin + hour * 3600, nodes) for hour, nodes in steps)
                for group, steps in self.max_nodes.items()
            },
            forgotten="",
        )

    def write(self, folder: Path) -> None:
        """As blocks in `folder`/data."""
        assert PROMTOOL is not None
        with (folder / "month.txt").open("w", encoding="utf-8") as out:
            name = ""
            for series, points in sorted(self._series(), key=lambda entry: entry[0].partition("{")[0]):
                metric, _, labels = series.partition("{")
                if metric != name:
                    out.write(f"# TYPE {metric} gauge\n")
                    name = metric
                kept = [(at, value) for at, value in points if not self._lost(at)]
                for replica in range(self.replicas):
                    scraped = f'customer="acme",prometheus_replica="{replica}"'
                    text = f"{metric}{{{scraped}{',' if labels else ''}{labels or '}'}"
                    out.writelines(f"{text} {value!r} {at:.0f}\n" for at, value in kept)
            out.write("# EOF\n")
        command = [PROMTOOL, "tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=486h"]
        subprocess.run([*command, "month.txt", "data"], cwd=folder, check=True, capture_output=True)

    def _at(self, day: int, hour: float) -> float:
        return self.begin + day * 86_400 + hour * 3600

    def _usd(self, run: Run, *, listed: bool) -> float:
        share = 1.0
        if run.key.capacity_type == "spot" and not listed:
            typical = spot_typical(REGION, run.key.instance_type) / on_demand(REGION, run.key.instance_type)
            share = typical * self.spot_factor
        begin, end = max(run.created, self.begin), min(run.end, self.end)
        steps = self.prices[run.key.instance_type]
        ends = (*(at for at, _ in steps[1:]), float("inf"))
        return share * sum(
            max(0.0, min(end, until) - max(begin, since)) * usd / 3600
            for (since, usd), until in zip(steps, ends, strict=True)
        )

    def _runs(self) -> Iterator[Run]:
        chance = random.Random(self.seed)
        for number in range(3):
            yield self._run(f"ip-10-0-0-{number}", "fixed", self.begin - 400_000 - number, self.end + 9_000)
        # A fixed node was replaced: the new one has the name of the old one.
        reborn = self._at(14, 3.3)
        yield self._run("ip-10-0-0-9", "fixed", self.begin - 90_000, reborn)
        yield self._run("ip-10-0-0-9", "fixed", reborn + 400, self.end + 5_000)
        yield self._run("ip-10-1-0-0", "flexible", self.begin - 50_000, self.end + 70_000)  # of the service
        if self.fargate:
            key = NodeKey(node=FARGATE, group="", category="", instance_type="", capacity_type="on-demand")
            yield Run(key=key, created=self._at(3, 0), end=self._at(3, FARGATE_HOURS))
        if self.renamed:  # within the five minutes for which Prometheus still shows the earlier node
            yield self._run("ip-10-1-9-9", "flexible", self._at(5, 2), self._at(5, 3.95))
            yield self._run("ip-10-1-9-9", "fixed", self._at(5, 3.95) + 60, self._at(5, 7))
        for place, (begin, end, nodes) in enumerate(self.bursts):
            for number in range(nodes):
                yield self._run(f"ip-10-4-{place}-{number}", "flexible", self._at(0, begin), self._at(0, end))
        days = round(self.month.hours / 24)
        for day in range(days):
            busy = 0.3 if day % 7 > 4 else 1.0
            for number in range(round(20 * busy * self.scale)):
                born = self._at(day, chance.uniform(6, 15))
                length = chance.choice((0.4, 0.8, 2.5, 5.0, 9.0)) * 3600 * chance.uniform(0.8, 1.2)
                yield self._run(f"ip-10-1-{day + 1}-{number}", "flexible", born, born + length)
            for number in range(round(6 * busy * self.scale)):
                born = self._at(day, chance.uniform(0, 22))
                yield self._run(f"ip-10-2-{day}-{number}", "spot", born, born + chance.uniform(600, 14_000))

    @staticmethod
    def _run(node: str, group: str, created: float, end: float) -> Run:
        kind = FIXED if group == "fixed" else FLEXIBLE
        capacity = "spot" if group == "spot" else "on-demand"
        key = NodeKey(node=node, group=group, category=group, instance_type=kind, capacity_type=capacity)
        return Run(key=key, created=float(round(created)), end=end)

    def _labelled(self, run: Run, looks: Sequence[float]) -> Iterator[tuple[NodeKey, Sequence[float]]]:
        """The times of a node's samples by the labels that it had then."""
        there = _within(looks, run)
        first = bisect_left(there, run.created + self.bare)
        bare = NodeKey(node=run.key.node, group="", category="", instance_type="", capacity_type="on-demand")
        yield from ((key, times) for key, times in ((bare, there[:first]), (run.key, there[first:])) if times)

    def _looks(self) -> list[float]:
        first, count = self.begin - 600 + _PHASE, round((self.end - self.begin + 1200) / self.every)
        looks = [first + number * self.every for number in range(count)]
        for begin, end in self.holes:
            edges = (bisect_left(looks, self.begin + edge * 3600) for edge in (begin, end))
            del looks[slice(*edges)]
        return looks

    def _lost(self, at: float) -> bool:
        return any(begin <= (at - self.begin) / 3600 < end for begin, end in self.holes)

    def _wanted(self) -> Iterator[tuple[float, int]]:
        """Three workers for each flexible node but the one of the service."""
        lives = [(run.created, run.end) for run in self.runs if run.key.group == "flexible"][1:]
        changes = sorted([(begin, 3) for begin, _ in lives] + [(end, -3) for _, end in lives])
        steps, workers, place = round(self.month.hours) * 15, 0, 0
        for step in range(steps):
            at = self.begin + step * 240
            while place < len(changes) and changes[place][0] <= at:
                workers += changes[place][1]
                place += 1
            yield at, workers

    def _series(self) -> Iterator[tuple[str, list[tuple[float, float]]]]:
        looks = self._looks()
        for cluster in range(self.clusters):
            yield f'ebbtide_leader{{pod="scaler-{cluster}"}}', [(at, 1.0) for at in looks]
        yield 'ebbtide_exporter_sees{what="nodes"}', [(at, 1.0) for at in looks]
        for run in self.runs:
            key = run.key
            there = _within(looks, run)
            for shown, times in self._labelled(run, looks):
                capacity = {"spot": "SPOT", "on-demand": "ON_DEMAND" if shown.group else ""}[shown.capacity_type]
                labels = (
                    f'node="{shown.node}",group="{shown.group}",kind="{shown.category}",'
                    f'instance_type="{shown.instance_type}",capacity_type="{capacity}"'
                )
                yield f"ebbtide_node_info{{{labels}}}", [(at, 1.0) for at in times]
            created = [(at, run.created) for at in there[::_SLOW]]
            yield f'ebbtide_node_created_timestamp_seconds{{node="{key.node}"}}', created
            if key.instance_type:
                known = [at for at in there if at >= run.created + self.bare]
                dollars = [(at, self._price(key.instance_type, at)) for at in known[:: 1 if self.renamed else _SLOW]]
                yield f'ebbtide_node_dollars_per_hour{{node="{key.node}"}}', dollars
        yield 'ebbtide_pool_wanted{pool="train"}', [(at, float(value)) for at, value in self._wanted()]
        for group, steps in self.max_nodes.items():
            values = [(at, [nodes for hour, nodes in steps if self.begin + hour * 3600 <= at][-1:]) for at in looks]
            recorded = [(at, last[0]) for at, last in values if last]
            yield f'ebbtide_group_max_nodes{{group="{group}"}}', recorded
        yield from self._states()
        yield from self._requests(looks[::_SLOW])

    def _states(self) -> Iterator[tuple[str, list[tuple[float, float]]]]:
        """A series for each state and reason, as the workload controller has them."""
        looks, naps = self._looks()[::_SLOW], [at for at, _ in self.naps]
        for state, why in (("awake", "business-hours"), ("asleep", "outside-business-hours")):
            there = [at for at in looks if self.naps[max(0, bisect_left(naps, at) - 1)][1] == (state == "asleep")]
            labels = f'workload="deployment ebbtide/api",state="{state}",why="{why}"'
            yield f"ebbtide_workload_state{{{labels}}}", [(at, 1.0) for at in there]

    def _price(self, kind: str, at: float) -> float:
        return [usd for since, usd in self.prices[kind] if since <= at][-1]

    def _requests(self, looks: Sequence[float]) -> Iterator[tuple[str, list[tuple[float, float]]]]:
        for group, category, workload, cores in (("fixed", "fixed", "hub", 8), ("flexible", "worker", "train", 16)):
            lives = [(run.created, run.end) for run in self.runs if run.key.group == group]
            nodes = [(at, sum(begin <= at < end for begin, end in lives)) for at in looks]
            nodes = [(at, count) for at, count in nodes if count]
            labels = f'{{group="{group}",category="{category}",workload="{workload}"}}'
            yield f'{Recorded.PAID_CPU}{{group="{group}"}}', [(at, float(count * cores)) for at, count in nodes]
            yield (
                f'{Recorded.PAID_MEMORY}{{group="{group}"}}',
                [(at, float(count * 4 * cores * GIB)) for at, count in nodes],
            )
            yield f"{Recorded.REQUESTED_CPU}{labels}", [(at, count * cores / 2) for at, count in nodes]
            yield f"{Recorded.REQUESTED_MEMORY}{labels}", [(at, count * 2.0 * cores * GIB) for at, count in nodes]
            yield from self._labels(group, workload, cores, nodes)

    def _labels(
        self, group: str, workload: str, cores: int, nodes: Sequence[tuple[float, int]]
    ) -> Iterator[tuple[str, list[tuple[float, float]]]]:
        """Before `labelled_from` the stack file had no labels; in the hour after it, the exporter did not know them."""
        if self.labelled_from is None:
            return
        first = self.begin + self.labelled_from * 3600
        spans = {"": (first, first + 3600), f"team-of-{workload}": (first + 3600, self.end)}
        for value, (since, until) in spans.items():
            labels = f'{{group="{group}",label="team",value="{value}"}}'
            there = [(at, count) for at, count in nodes if since <= at < until]
            yield f"{Recorded.LABELLED_CPU}{labels}", [(at, count * cores / 2) for at, count in there]
            yield f"{Recorded.LABELLED_MEMORY}{labels}", [(at, count * 2.0 * cores * GIB) for at, count in there]


def _within(looks: Sequence[float], run: Run) -> Sequence[float]:
    return looks[bisect_left(looks, run.created) : bisect_left(looks, run.end)]


def paid_for(known: KnownMonth, settings: StackSettings) -> Paid:
    recording = known.recording()
    return paid_of(settings, known.month, recording, rates_of(settings, recording))


def bounds(paid: Paid) -> tuple[float, float]:
    """Return the bounds of a month's dollars at typical prices of spot nodes, without boots."""
    recorded = sum(row.usd for row in paid.rows)
    return recorded + sum(gap.low_usd for gap in paid.gaps), recorded + sum(gap.high_usd for gap in paid.gaps)
