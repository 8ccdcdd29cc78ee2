"""Owner and last day: where they may stand, what they take, and that they only warn."""

from datetime import date
from pathlib import Path

import pytest

from ebbtide.settings import warnings_of
from tests.builders.settings import loaded, problem_of, shortest

LAST = 'expires: "2026-11-30"'
POD = 'image: "example.com/a:1", cpu: 1, memory: 1Gi'
SERVED = f"{POD}, port: http, ports: {{ http: 80 }}, longestRequest: 1s, probes: {{ readiness: {{ tcp: http }} }}"
TWO = "variants: {{ a: {{ weight: 90{} }}, b: {{ weight: 10 }} }}, route: {{ host: a.example.com }}"


def cautions(text: str, folder: Path, today: date) -> dict[str, str]:
    warnings = warnings_of(loaded(text, folder), today)
    return {caution.place: caution.text for caution in warnings if caution.code == "workload.expired"}


SERVICE, VARIANT = (f"ebbtide:services: {{ api: {{ {SERVED}, {keys} }} }}" for keys in (LAST, TWO.format(f", {LAST}")))
RAY = f"""
ebbtide:ray:
  flow: {{ version: "2.60.0", image: "example.com/ray:2.60.0", longestTask: 1h, head: {{ cpu: 1, memory: 4Gi }},
    groups: {{ cpu: {{ max: 2, cpu: 1, memory: 4Gi }} }}, {LAST} }}
"""
ADOPTED = f"""
ebbtide:cluster: {{ version: "1.36" }}
ebbtide:adopted:
  hub: {{ namespace: jupyter, selector: {{ app: hub }}, category: fixed, replicas: 1, cpu: 1, memory: 1Gi, {LAST} }}
"""


@pytest.mark.parametrize(
    ("path", "train", "more"),
    [
        ("workers.train", LAST, ""),
        ("workloads.api", "", f"ebbtide:workloads: {{ api: {{ category: flexible, {POD}, {LAST} }} }}"),
        ("services.api", "", SERVICE),
        ("services.api.variants.a", "", VARIANT),
        ("ray.flow", "", RAY),
        ("adopted.hub", "", ADOPTED),
    ],
)
def test_an_entry_after_its_last_day_is_a_warning_at_its_key(path: str, train: str, more: str, tmp_path: Path) -> None:
    text = shortest(train=train, more=more)

    assert cautions(text, tmp_path, date(2026, 11, 30)) == {}
    assert list(cautions(text, tmp_path, date(2026, 12, 1))) == [f"{path}.expires"]


def test_the_warning_names_the_owner(tmp_path: Path) -> None:
    text = shortest(train=f"owner: team search <search@example.com>, {LAST}")

    assert "team search <search@example.com>" in cautions(text, tmp_path, date(2027, 1, 1))["workers.train.expires"]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ('owner: ""', ("owner.form", "workers.train.owner:", "one line")),
        ('owner: "search\\nand more"', ("owner.form", "found 'search")),
        ("owner: 12", ("owner.form", "found 12")),
        ('expires: "2026-11-31"', ("date.form", "workers.train.expires:")),
        ("expire: soon", ("key.unknown", "did you mean expires?")),
    ],
)
def test_a_slip_is_told_with_its_place(keys: str, words: tuple[str, ...], tmp_path: Path) -> None:
    assert problem_of(shortest(train=keys), tmp_path).tells(*words)
