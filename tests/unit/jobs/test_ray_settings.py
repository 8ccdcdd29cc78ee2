"""What a worker reads of its Ray cluster, and its error if it cannot."""

import json
from itertools import count
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from ebbtide.jobs import ray_driver
from ebbtide.jobs.ray_node import VARIABLE, HeadAway, RayError, RaySettings, ray_settings

FLOW = {"cluster": "flow", "address": "flow-head:6379", "version": "2.60.0"}


def test_the_variable_names_cluster_address_and_version() -> None:
    read = ray_settings({VARIABLE: json.dumps(FLOW | {"image": "registry/flow@sha256:1f", "more": 1})})

    assert read == RaySettings(
        cluster="flow", address="flow-head:6379", version="2.60.0", image="registry/flow@sha256:1f"
    )
    assert read.host_and_port == ("flow-head", 6379)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("flow", "cluster, address, version"),
        ("[]", "cluster, address, version"),
        (json.dumps({"cluster": "flow", "address": "flow-head:6379"}), "version"),
        (json.dumps(FLOW | {"version": 2.6}), "version"),
        (json.dumps(FLOW | {"address": "flow-head"}), "address as host:port"),
    ],
)
def test_a_variable_that_cannot_be_read_is_one_line_with_what_is_wanted(text: str, wanted: str) -> None:
    with pytest.raises(RayError) as error:
        ray_settings({VARIABLE: text})

    example = '{"cluster": "flow", "address": "flow-head.ebbtide-ray:6379", "version": "2.60.0"}'
    assert str(error.value) == f"EBBTIDE_RAY: found {text!r}, wanted {wanted}, for example {example}"


@pytest.mark.parametrize(("within", "attempts"), [(0.0, 1), (9.0, 1), (10.0, 2), (20.0, 3)])
def test_a_head_that_stays_away_is_one_line_once_the_time_is_over(
    within: float, attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt takes 10 seconds. One that ends with the time is not too late."""
    clock = count(step=10.0)
    monkeypatch.setattr(ray_driver, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=Mock()))
    away = Mock(side_effect=[HeadAway("no answer")] * 9)
    monkeypatch.setattr(ray_driver, "_connect", away)
    flow = RaySettings(**FLOW, image="")

    with pytest.raises(RayError) as error, ray_driver._patiently_beside(flow, within, 0):
        pass

    assert away.call_count == attempts
    words = "Ray cluster flow at flow-head:6379 could not be used for"
    assert str(error.value) == f"{words} {attempts}0 s: no answer"


def test_a_pool_without_ray_gets_the_name_of_the_missing_key() -> None:
    with pytest.raises(RayError, match=r"^no EBBTIDE_RAY: the pool's section of the stack file has no ray "):
        ray_settings({})
