"""What Prometheus' operator is given, on a real API server: refused without its kinds, and taken whole with them."""

import json
from subprocess import CalledProcessError
from typing import Any

import pytest
from control_plane.plane.driver import ControlPlane

from tests.builders.control_plane import Fresh, eventually
from tests.builders.monitoring.watched import definitions, objects

pytestmark = pytest.mark.control_plane

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
API = "/apis/monitoring.coreos.com/v1"


def test_what_the_operator_is_given_is_refused_without_its_kinds_and_taken_whole_with_them(
    control_plane: ControlPlane, fresh: Fresh
) -> None:
    given = {place: dict(one.inputs) for place, one in objects().items()}
    (rules,) = [place for place in given if place[0] == "PrometheusRule"]
    with pytest.raises(CalledProcessError) as refused:
        applied(control_plane, given[rules], fresh.namespace())
    assert 'no matches for kind "PrometheusRule"' in refused.value.stderr
    for crd in definitions().values():
        plural = crd["spec"]["names"]["plural"]
        fresh.create(CRDS, {**crd, "metadata": {"name": crd["metadata"]["name"]}})
        eventually(lambda plural=plural: "items" in control_plane.api.get(f"{API}/{plural}"), what=plural)

    for one in given.values():
        assert applied(control_plane, one, fresh.namespace())["spec"] == one["spec"]


def applied(plane: ControlPlane, given: dict[str, Any], namespace: str) -> dict[str, Any]:
    """As it is stored, in a namespace of the test's own."""
    moved = {**given, "metadata": {**given["metadata"], "namespace": namespace}}
    file = plane.folder / f"{namespace}.json"
    file.write_text(json.dumps(moved), encoding="utf-8")
    return json.loads(plane.kubectl("apply", "--server-side", "-o", "json", "-f", str(file)))
