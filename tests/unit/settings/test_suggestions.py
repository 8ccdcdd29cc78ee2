"""Suggestions are of the same kind as the mistyped value."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.prices import instance_type, instance_type_names, nearest_type
from tests.builders.settings import problems_of, shortest


def hint(text: str, folder: Path) -> str:
    (problem,) = problems_of(text, folder)
    return problem.hint


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("m4.4xlarge", "m7i.4xlarge"),
        ("c4.2xlarge", "c7i.2xlarge"),
        ("m5g.2xlarge", "m8g.2xlarge"),
        ("g3.4xlarge", "g6.4xlarge"),
        ("M7i.2xlarge", "m7i.2xlarge"),
        ("m7i.4xlrge", "m7i.4xlarge"),
        ("m7i.2xlage", "m7i.2xlarge"),
        ("mi7.4xlarge", "m7i.4xlarge"),
        ("m7i-2xlarge", "m7i.2xlarge"),
        ("r4.64xlarge", ""),
        ("p2.2xlarge", ""),
        ("q5.4xlarge", ""),
        ("dl1.24xlarge", ""),
        ("large", ""),
    ],
)
def test_a_type_that_is_suggested_is_of_the_same_class(name: str, meant: str, tmp_path: Path) -> None:
    suggestion = hint(shortest(more=f"ebbtide:nodeGroups: {{ gpu: {{ instanceTypes: [{name}] }} }}"), tmp_path)

    assert suggestion == (f"did you mean {meant}?" if meant else "")


@given(
    st.sampled_from(["m", "c", "r", "t", "g", "p"]),
    st.integers(1, 9),
    st.sampled_from(["", "i", "a", "g", "dn", "gd"]),
    st.sampled_from(["large", "xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge"]),
)
def test_a_known_name_never_leads_to_gpus_another_processor_or_another_size(
    kind: str, generation: int, more: str, size: str
) -> None:
    near = nearest_type(f"{kind}{generation}{more}.{size}")

    if near:
        facts = instance_type(near)
        assert near in instance_type_names()
        assert near.endswith(f".{size}")
        assert (facts.gpu > 0) is (kind in "gp")
        assert (facts.arch == "arm64") is ("g" in more)


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("ebbtide:charts", ""),
        ("ebbtide:workload", "ebbtide:workloads"),
        ("ebbtide:redsi", "ebbtide:redis"),
        ("ebbtide:pools", ""),
        ("ebbtide:storage", ""),
        ("workers", "ebbtide:workers"),
        ("worker", "ebbtide:workers"),
        ("ebbtide:node_groups", "ebbtide:nodeGroups"),
    ],
)
def test_a_key_that_is_suggested_is_close(key: str, meant: str, tmp_path: Path) -> None:
    suggestion = hint(shortest(more=f"{key}: {{}}"), tmp_path)

    assert suggestion == f"did you mean {meant}?" if meant else suggestion.startswith("known here: ebbtide:")


@pytest.mark.parametrize(
    ("zone", "meant"),
    [
        ("Asia/Bangalore", "Asia/Kolkata"),
        ("Mumbai", "Asia/Kolkata"),
        ("Asia/Beijing", "Asia/Shanghai"),
        ("America/San_Francisco", "America/Los_Angeles"),
        ("San Francisco", "America/Los_Angeles"),
        ("Europe/Munich", "Europe/Berlin"),
        ("PST", "America/Los_Angeles"),
        ("Berlin", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("Europe/Berln", "Europe/Berlin"),
        ("Eurpe/Berlin", "Europe/Berlin"),
        ("America/Nwe_York", "America/New_York"),
        ("Asia/Nowhere", ""),
        ("Asia/Mangalore", ""),
        ("Europe/Springfield", ""),
    ],
)
def test_a_zone_that_is_suggested_is_the_citys_own(zone: str, meant: str, tmp_path: Path) -> None:
    text = shortest().replace("Europe/Berlin", zone)

    assert hint(text, tmp_path) == (f"did you mean {meant}?" if meant else "")


@pytest.mark.parametrize(
    ("holidays", "meant"),
    [
        ("{ country: us }", "US"),
        ("{ country: Germany }", "DE"),
        ("{ country: EN }", ""),
        ("{ country: GER }", ""),
        ("{ country: DE, subdivision: Bayern }", "BY"),
        ("{ country: DE, subdivision: by }", "BY"),
        ("{ country: DE, subdivision: BZ }", ""),
    ],
)
def test_a_country_that_is_suggested_is_the_one_that_was_named(holidays: str, meant: str, tmp_path: Path) -> None:
    suggestion = hint(shortest(hours=f"holidays: {holidays}"), tmp_path)

    assert suggestion == (f"did you mean {meant}?" if meant else "")


@pytest.mark.parametrize(
    ("train", "meant"),
    [("pod: { dnsPolice: Default }", "dnsPolicy"), ("cpus: 4", "cpu"), ("exposed: true", ""), ("storageSize: 4", "")],
)
def test_a_word_of_a_list_is_suggested_where_it_is_close(train: str, meant: str, tmp_path: Path) -> None:
    suggestion = hint(shortest(train=train), tmp_path)

    assert ("did you mean" in suggestion) is bool(meant)
    assert meant in suggestion


INDENTED_LESS = "config:\nebbtide:customer: acme\nebbtide:workers:\n  train: { max: 3 }\n"


@pytest.mark.parametrize(
    ("text", "hints"),
    [
        (
            INDENTED_LESS,
            {"config": "below it", "ebbtide:customer": "below config:", "ebbtide:workers": "below config:"},
        ),
        (INDENTED_LESS.removeprefix("config:\n"), {"config": "first line of settings is config:"}),
        (shortest() + "ebbtide:redis: { memory: 4Gi }\n", {"ebbtide:redis": "as the keys below config:"}),
        (
            shortest() + "  ebbtide:workloads:\n  api: { cpu: 1 }\n",
            {"api": "belongs to ebbtide:workloads, which is empty"},
        ),
        (
            shortest() + "  ebbtide:workloads:\n    api:\n    cpu: 1\n",
            {"ebbtide:workloads.api": "indent the lines that belong to it further"},
        ),
        (
            shortest() + "  ebbtide:redis:\n    memory: 4Gi\n    ebbtide:costs: {}\n",
            {"ebbtide:redis.ebbtide:costs": "indent it, and all lines that belong to it, less"},
        ),
    ],
)
def test_lines_that_are_indented_wrongly_are_told_where_they_belong(
    text: str, hints: dict[str, str], tmp_path: Path
) -> None:
    shown = {problem.path: problem.hint for problem in problems_of(text, tmp_path)}

    assert {path for path, hint in hints.items() if hint not in shown.get(path, "")} == set()
