"""The cases of docs/explanation/ownership.md that an update decides, by Pulumi's Kubernetes provider on an API server.

`tests/control_plane/test_ownership.py` has all of them, with a stand-in for the provider: here is the proof that the
stand-in does as the provider does.
"""

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from control_plane.plane.driver import ControlPlane
from pulumi.automation import CommandError

from components.ownership import MAX_UNAVAILABLE, REPLICAS
from controllers.adapters.kube_api import Json
from ebbtide.vocabulary.labels import FIELD_MANAGER
from tests.control_plane.support.applying import quiet_plane
from tests.control_plane.support.ownership import IGNORED, Program, Site
from tests.engine.project import Project
from tests.paths import ROOT

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

OLD, NEW = Program(), Program(image="worker:2", label="b", memory="2Gi")
STACK = "declared"


@dataclass(frozen=True, kw_only=True)
class Declaring:
    """A program of two objects, run by the real engine."""

    project: Project
    namespace: str
    ignore: tuple[str, ...]
    force: bool

    def write(self, program: Program, *, fields: bool = True) -> None:
        pool = program.deployment(self.namespace, **({} if fields else {"replicas": None}))
        budget = program.budget(self.namespace, **({} if fields else {"maxUnavailable": None}))
        pool["metadata"]["annotations"] = {"pulumi.com/skipAwait": "true"}
        values: Json = {"pool": pool, "budget": budget, "ignore": list(self.ignore), "force": self.force}
        self.project.write(STACK, {f"declared:{key}": value for key, value in values.items()})

    def up(self, program: Program, *, fields: bool = True) -> None:
        self.write(program, fields=fields)
        self.project.up(STACK)

    def preview(self, program: Program) -> None:
        self.write(program)
        self.project.preview(STACK)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with quiet_plane() as plane:
        yield plane


@pytest.fixture
def site(plane: ControlPlane) -> Site:
    namespace = f"test-{secrets.token_hex(4)}"
    plane.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    return Site(plane, namespace)


@pytest.fixture
def declaring(site: Site, tmp_path: Path) -> Callable[..., Declaring]:
    environment = {"KUBECONFIG": str(site.plane.kubeconfig)}
    project = Project(tmp_path, (), environment, ROOT / "tests/engine/declared")

    def program(*, ignore: tuple[str, ...] = IGNORED, force: bool = False) -> Declaring:
        return Declaring(project=project, namespace=site.namespace, ignore=ignore, force=force)

    return program


def seen(site: Site) -> tuple[str, int, int | None]:
    return site.image, site.replicas, site.opening


@pytest.mark.parametrize("ignore", [(), ("spec.max_unavailable", "spec.min_replicas")], ids=["none", "snake case"])
def test_a_f_a_field_that_is_not_ignored_ends_in_a_conflict_which_no_preview_tells(
    site: Site, declaring: Callable[..., Declaring], ignore: tuple[str, ...]
) -> None:
    program = declaring(ignore=ignore)
    program.up(OLD)
    site.scale(5)
    site.open(1)

    program.preview(NEW)
    with pytest.raises(CommandError, match=r'conflict with "ebbtide-controller".*\.spec\.'):
        program.up(NEW)

    assert seen(site) == (OLD.image, 5, 1)


def test_b_force_takes_the_fields_back(site: Site, declaring: Callable[..., Declaring]) -> None:
    program = declaring(ignore=(), force=True)
    program.up(OLD)
    site.scale(5)
    site.open(1)

    program.up(NEW)

    assert seen(site) == (NEW.image, 0, 0)


def test_c_an_ignored_field_stays_the_controllers(site: Site, declaring: Callable[..., Declaring]) -> None:
    program = declaring()
    program.up(OLD)
    site.scale(5)
    site.open(1)

    program.up(NEW)

    assert seen(site) == (NEW.image, 5, 1)
    assert site.owners(REPLICAS) == site.owners(MAX_UNAVAILABLE) == [FIELD_MANAGER]


@pytest.mark.parametrize("at_first", [False, True], ids=["never declared", "declared once"])
def test_d_e_a_field_that_is_left_out_stays_as_the_controller_wrote_it(
    site: Site, declaring: Callable[..., Declaring], at_first: bool
) -> None:
    program = declaring(ignore=())
    program.up(OLD, fields=at_first)
    site.scale(5)
    site.open(1)

    program.up(NEW, fields=False)

    assert seen(site) == (NEW.image, 5, 1)
