"""Commands about money and use: the ledger, what is idle, the page of a running stack."""

import json
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from ebbtide.lab.ledger.build import ledger_of
from ebbtide.lab.ledger.month import Ledger, Month, plain
from ebbtide.lab.ledger.month_file import add_entry, month_path
from ebbtide.lab.ledger.reading import RecordedMonth
from ebbtide.settings.load import stack_of_text
from tests.builders.claims import lists
from tests.builders.cur import known_month, node, tags, write_csv
from tests.builders.monitoring.month import KnownMonth, stack
from tests.builders.settings import shortest
from tests.golden.commands.case import Case, nothing, replaced
from tests.golden.commands.cluster import cluster
from tests.golden.commands.telling import OF_IDLE, OF_LIVE
from tests.unit.operate.idle.test_aws import answer_balancer, answer_volumes, of_claim, volume
from tests.unit.operate.idle.test_idle import POOLS, RAY, SERVICE, STACK
from tests.unit.prices.stubbed_aws import StubbedAws

_OCTOBER = Month(year=2026, month=10, zone="Europe/Berlin")
_HOLES = ((60, 93.4), (300, 300.5))
_BUNDLED = "ebbtide:monitoring: { prometheus: bundled }"
_SERVED = f"  embedder:{SERVICE}    route: {{ host: m.internal, path: /embedder }}\n"


def _idle_stack() -> str:
    text = shortest(more=f"{STACK}ebbtide:ray:\n  flow:{RAY}ebbtide:services:\n{_SERVED}", train="gpu: 1")
    for name in ("moved", "api"):
        text = text.replace(f'{name}:1", ', f'{name}:1", owner: team-{name}, expires: "2026-01-01", ')
    head, workers, rest = text.partition("  ebbtide:workers:\n")
    return f"{head}{workers}{POOLS.strip(chr(10))}\n{rest}"


@cache
def _recording() -> RecordedMonth:
    return KnownMonth(month=_OCTOBER, scale=0.1, every=240, holes=_HOLES).recording()


@cache
def _ledger() -> Ledger:
    settings = stack_of_text(_PROJECT["stacks/Pulumi.acme.yaml"], stack="acme", file="stacks/Pulumi.acme.yaml")
    return ledger_of(_recording(), settings, _OCTOBER, datetime(2026, 11, 3, tzinfo=UTC))


@contextmanager
def _idle_with_aws() -> Generator[Sequence[object]]:
    aws = StubbedAws()
    answer_volumes(aws, [volume(*of_claim("old-0"))], [volume(("Name", "scratch"), kind="io2")])
    answer_balancer(aws, targets=[None])
    with cluster(lists(), OF_IDLE)() as sent, patch("ebbtide.prices.aws_client.new_client", aws.client):
        yield sent


@cache
def _bill() -> str:
    with tempfile.TemporaryDirectory() as folder:
        rows = known_month(datetime(2026, 10, 2, tzinfo=UTC))
        return write_csv(Path(folder) / "cur.csv", rows).read_text(encoding="utf-8")


_HOUR = datetime(2026, 10, 2, tzinfo=UTC)
_FAULTS: Mapping[str, Mapping[str, Any]] = {
    "currency": {"line_item_currency_code": "EUR"},
    "daily": {"line_item_usage_end_date": "2026-10-03T00:00:00Z"},
    "anonymous": {"line_item_resource_id": ""},
    "twice": {"line_item_usage_amount": 800.0},
    "untagged": {"resource_tags": {}},
    "other": {"resource_tags": tags("other")},
    "strange": {"line_item_line_item_type": "Strange"},
    "text": {"line_item_usage_amount": "x", "line_item_unblended_cost": "y"},
}


@cache
def _faulty_bills() -> Mapping[str, str]:
    """Bills of one node whose rows are wrong, in one way each, and one of another month."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = {fault: [node(_HOUR, 0.8, **cells), node(_HOUR, 0.8, **cells)] for fault, cells in _FAULTS.items()}
        rows["september"] = [node(_HOUR.replace(month=9), 0.8)]
        return {
            f"bills/{fault}.csv": write_csv(folder / f"{fault}.csv", of).read_text(encoding="utf-8")
            for fault, of in rows.items()
        }


_PROJECT = {
    "Pulumi.yaml": "name: platform\n",
    "stacks/Pulumi.acme.yaml": stack(more=_BUNDLED),
    "stacks/Pulumi.plain.yaml": shortest(),
    "cur.csv": _bill(),
}


@cache
def _november() -> RecordedMonth:
    """A month that has not ended: nothing is recorded after its twentieth day."""
    max_nodes = {"fixed": ((0.0, 60.0),), "flexible": ((0.0, 30.0), (200.0, 24.0)), "spot": ((0.0, 8.0),)}
    holes = ((60, 70), (472, 800))
    return KnownMonth(month=_OCTOBER.after, scale=0.1, every=240, holes=holes, max_nodes=max_nodes).recording()


def _read_month(_asking: object, _customer: str, month: Month, *_: object) -> RecordedMonth:
    return _november() if month == _OCTOBER.after else _recording()


def _ledger_of(*_: object) -> Ledger:
    return _ledger()


_MONTH = replaced(  # Prometheus recorded October, with two holes; its ledger is calculated once for all widths
    {
        "ebbtide.lab.ledger.reading.read_month": _read_month,
        "ebbtide.lab.ledger.reading.read_nodes": _read_month,
        "ebbtide.lab.ledger.build.ledger_of": _ledger_of,
    },
    cluster({}),
)


def _poor_recording(_asking: object, customer: str, *_: object) -> RecordedMonth:
    """For `holes` most of the month is missing, for `bare` all but the nodes, for `none` everything."""
    if customer == "holes":
        return KnownMonth(month=_OCTOBER, scale=0.1, every=240, holes=((60, 700),)).recording()
    bare = replace(_recording(), wanted={}, asleep={}, requests={})
    sightings = bare.sightings
    return bare if customer == "bare" else replace(bare, prices={}, sightings=replace(sightings, seen={}, created={}))


def _for(customer: str, costs: str = "") -> str:
    text = stack(more=_BUNDLED, costs=costs or "before: { fixed: 3, flexible: 12 }")
    return text.replace("customer: acme", f"customer: {customer}")


@contextmanager
def _committed_badly() -> Generator[Sequence[object]]:
    """Ledgers that were edited by hand: one with other dollars, one of another stack, one that is none."""
    add_entry(month_path(Path(), "acme", "2026-10"), {"ledger": plain(_ledger())}, datetime(2026, 11, 4, tzinfo=UTC))
    written = month_path(Path(), "acme", "2026-10")
    text = written.read_text(encoding="utf-8")
    document = json.loads(text)
    document["entries"][0]["ledger"]["source"] = "edited"
    for name, content in (("acme", json.dumps(document)), ("copied", text), ("torn", "{}")):
        path = month_path(Path(), name, "2026-10")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    with cluster({})() as sent:
        yield sent


_EXPIRED = shortest(train='owner: team-search, expires: "2026-01-01"', more="aws:region: eu-west-1")

CASES: Mapping[str, Case] = {
    "ledger/month": Case(
        lines=["ledger acme"],
        json=["ledger acme --json - --report ledger.html"],
        files=_PROJECT,
        stage=_MONTH,
        written=["ledger.html"],
    ),
    "ledger/running": Case(
        lines=["ledger acme --month 2026-11 --report ledger.html"],
        json=["ledger acme --month 2026-11 --json -"],
        files={
            **_PROJECT,
            "stacks/Pulumi.acme.yaml": stack(
                more=_BUNDLED, costs="before: { fixed: 3 }, expectedNodeHours: { fixed: 2200, flexible: 900 }"
            ),
        },
        stage=_MONTH,
    ),
    "ledger/bill": Case(
        lines=[
            "ledger acme --bill cur.csv --focus focus.csv --write --report ledger.html",
            "ledger acme --bill cur.csv --write",
            "ledger --all",
        ],
        json=["ledger acme --bill cur.csv --json - --write --focus focus.csv", "ledger --all --json -"],
        files=_PROJECT,
        stage=_MONTH,
        widths=(80,),
        written=["focus.csv"],
    ),
    "ledger/bill-alone": Case(
        lines=[
            "ledger plain --month 2026-10 --bill cur.csv --report bill.html",
            "ledger plain --month 2026-10 --bill cur.csv --write",
        ],
        json=["ledger plain --month 2026-10 --bill cur.csv --json -"],
        files=_PROJECT,
        stage=_MONTH,
    ),
    "ledger/refused": Case(
        lines=[
            "ledger",
            "ledger --all",
            "ledger plain",
            "ledger acme --month 2026-12",
            "ledger acme --month 2026-11 --write --bill cur.csv",
            "ledger acme --month 2025-13",
            "ledger acme --bill Pulumi.yaml",
        ],
        files=_PROJECT,
        stage=_MONTH,
    ),
    "ledger/bills-refused": Case(
        lines=[
            *(f"ledger acme --month 2026-10 --bill {path}" for path in _faulty_bills()),
            "ledger acme --month 2026-10 --bill bills",
            "ledger acme --month 2026-10 --bill stacks",
            "ledger acme --month 2026-10 --bill none.csv",
            "ledger acme --focus focus.csv",
        ],
        files={**_PROJECT, **_faulty_bills()},
        stage=_MONTH,
        widths=(80,),
    ),
    "ledger/committed-badly": Case(
        lines=[*(f"ledger {name} --month 2026-10" for name in ("acme", "copied", "torn")), "ledger --all"],
        files={
            "Pulumi.yaml": "name: platform\n",
            **{f"stacks/Pulumi.{name}.yaml": _for(name) for name in ("acme", "copied", "torn")},
        },
        stage=_committed_badly,
        widths=(80,),
    ),
    "ledger/poor-recordings": Case(
        lines=["ledger holes", "ledger bare", "ledger none", "ledger none --write"],
        files={
            "Pulumi.yaml": "name: platform\n",
            "stacks/Pulumi.holes.yaml": _for("holes"),
            "stacks/Pulumi.bare.yaml": _for("bare", "tags: { team: ml }"),
            "stacks/Pulumi.none.yaml": _for("none"),
        },
        stage=replaced({"ebbtide.lab.ledger.reading.read_month": _poor_recording}, cluster({})),
        widths=(80,),
    ),
    "ledger/savings": Case(lines=["advise savings acme --month 2026-10"], files=_PROJECT, stage=_MONTH, widths=(80,)),
    "idle/everything": Case(
        lines=["idle acme --aws"],
        json=["idle acme --aws --json -"],
        files={"stacks/Pulumi.acme.yaml": _idle_stack().replace("us-east-1", "eu-west-1")},
        stage=_idle_with_aws,
    ),
    "idle/unknown": Case(
        lines=["idle acme", "idle plain"],
        json=["idle acme --json -"],
        files={"stacks/Pulumi.acme.yaml": _EXPIRED, "stacks/Pulumi.plain.yaml": shortest()},
        stage=nothing,
    ),
    "report/live": Case(
        lines=["report live acme --since 6h", "report live plain", "report live acme --since 5m"],
        json=["report live acme --since 6h -o page.html"],
        files={"stacks/Pulumi.acme.yaml": shortest(more=_BUNDLED), "stacks/Pulumi.plain.yaml": shortest()},
        stage=cluster({}, OF_LIVE),
        written=["page.html"],
    ),
}
