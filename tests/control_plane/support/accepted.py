"""Stacks as an operator renders them, and the law that an API server accepts them and keeps them as they are."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from control_plane.plane.driver import ControlPlane
from typer.testing import CliRunner

from components.ownership import REPLICAS_OWNER
from controllers.adapters.kube_api import Json
from ebbtide.cli.__main__ import app
from ebbtide.provisioning_labels import WORKER_NAMESPACE, ReplicasOwner
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.documents import load
from ebbtide.vocabulary.labels import NAMESPACE
from tests.control_plane.support.applying import (
    State,
    controller_of,
    objects_in,
    scale_as_autoscaler,
    state_of,
    write_all,
)


class Write(NamedTuple):
    workers: int
    opening: int


ALL_WRITES = (Write(3, 1), Write(0, 0))


class Rendered(NamedTuple):
    objects: Sequence[Json]
    config: ControllerConfig


def rendered(stack: str, folder: Path) -> Rendered:
    """Render a stack with the commands that an operator runs."""
    for words in (["check", stack], ["render", stack, "--output", str(folder)]):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, f"ebbtide {words[0]}: {result.output}"
    return Rendered(
        objects_in(folder), load(ControllerConfig, (folder / "controller-config.json").read_text(encoding="utf-8"))
    )


@lru_cache(maxsize=128)
def rendered_text(text: str) -> Rendered:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "Pulumi.generated.yaml"
        file.write_text(text, encoding="utf-8")
        return rendered(str(file), Path(folder) / "out")


def handed_over(stack: Rendered) -> dict[str, tuple[str, str]]:
    """Return the fields that other managers own, with their owners, by the path of the object."""
    deployments = f"/apis/apps/v1/namespaces/{WORKER_NAMESPACE}/deployments"
    budgets = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
    owned = {f"{deployments}/{pool.deployment}": ("replicas", "controller") for pool in stack.config.pools}
    owned |= {f"{budgets}/{budget.name}": ("maxUnavailable", "controller") for budget in stack.config.budgets}
    for each in stack.objects:
        if each["metadata"].get("annotations", {}).get(REPLICAS_OWNER) == ReplicasOwner.HPA:
            path = f"/apis/apps/v1/namespaces/{NAMESPACE}/{each['kind'].lower()}s/{each['metadata']['name']}"
            owned[path] = ("replicas", "hpa")
    return owned


def stays_as_it_is(
    plane: ControlPlane, stack: Rendered, apply: Callable[[], Mapping[str, State]], writes: Sequence[Write] = ALL_WRITES
) -> None:
    """Applied, applied again, and again after the owners of what is left out have written."""
    owned = handed_over(stack)
    before = apply()
    assert apply() == before
    with controller_of(plane, stack.config) as controller:
        for write in writes:
            write_all(controller, stack.config, workers=write.workers, opening=write.opening)
            for path in (path for path, (_, owner) in owned.items() if owner == "hpa"):
                scale_as_autoscaler(plane.api, path, write.workers + 2)
            written = {**before, **{path: state_of(plane.api.get(path)) for path in owned}}
            assert {path for path in written if written[path] != before[path]} == set(owned)
            assert apply() == written
            values = {("replicas", "hpa"): write.workers + 2, ("replicas", "controller"): write.workers}
            for path, field in owned.items():
                assert plane.api.get(path)["spec"].get(field[0], 0) == values.get(field, write.opening), path
            before = written
